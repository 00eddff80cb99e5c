// Tests of the output of a report as text, JSON and CSV.
#include "tools/heed/report/report.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "tests/support/catch.h"
#include "tools/heed/report/evaluation_report.h"

namespace {

using namespace heed;

constexpr Column kRow[] = {{"name", "name"},
                           {"loss", "loss", "nats", "{:.3f}"},
                           {"bytes", "memory", "", "bytes"},
                           {"", "of"},
                           {"hidden"}};
constexpr Column kPair[] = {{"a"}, {"b"}};
constexpr Column kReport[] = {{"run", "run"}, rows("rows", kRow), fields("pair", kPair), {"unset"}};

Report sample() {
  Report report(kReport);
  Table& table = report.table("rows");
  table.add({"x,\"y\"", 1.5, 2000, "1/2", true});
  table.add({"z", NAN, nullptr, "2/2", std::vector{1, 2}});
  report.set("run", "runs/1");
  report.set("pair", object_of(kPair, {1, nullptr}));
  return report;
}

TEST_CASE("a report as JSON has the declared keys in order, and null for a key that is not set") {
  CHECK(to_json(sample()) ==
        R"({"run":"runs/1","rows":[{"name":"x,\"y\"","loss":1.5,"bytes":2000,"hidden":true},)"
        R"({"name":"z","loss":null,"bytes":null,"hidden":[1,2]}],"pair":{"a":1,"b":null},)"
        "\"unset\":null}\n");
  CHECK(to_json(Report()).empty());
  CHECK(keys_text(kReport) == "run rows (name loss bytes hidden) pair (a b) unset");
}

TEST_CASE("a table as CSV has keys and quoted cells; a number that is not finite is empty") {
  CHECK(to_csv(std::get<Table>(sample().find("rows")->what)) ==
        "name,loss,bytes,hidden\n\"x,\"\"y\"\"\",1.5,2000,true\nz,,,1 2\n");
}

TEST_CASE("a report as text has labelled columns and fields; a number that is not finite is -") {
  CHECK(to_text(sample()) ==
        "name   loss (nats)  memory   of\n"
        "x,\"y\"        1.500    2 kB  1/2\n"
        "z                -       -  2/2\n\n"
        "run  runs/1\n");
}

TEST_CASE("text shows infinities and with_nan(NAN), aligned as numbers") {
  static constexpr Column kColumns[] = {{"", "x"}, {"", "loss", "", "{:.1f}"}};
  Table table(kColumns);
  table.add({"a", INFINITY}), table.add({"b", -INFINITY}), table.add({"c", with_nan(NAN)});
  table.add({"d", with_nan(10)}), table.add({"e", NAN}), table.add({"f", "-inf"});
  CHECK(to_text(table) == "x  loss\na   inf\nb  -inf\nc   nan\nd  10.0\ne     -\nf  -inf\n");
}

TEST_CASE("the evaluation of a diverged model shows its loss as nan") {
  Report report(kEvaluationKeys);
  nn::Evaluation diverged{};
  diverged.loss = NAN;
  add_evaluation(report, diverged, *nn::make_task("copy"));
  CHECK(to_text(report).find("nan") != std::string::npos);
}

TEST_CASE("text has at most 80 columns: paragraphs wrap, tables drop columns") {
  CHECK(wrapped(std::string(50, 'a') + " " + std::string(40, 'b'), 3) ==
        std::string(50, 'a') + "\n   " + std::string(40, 'b'));
  const std::string wide(50, 'w');
  const std::vector<Column> columns = {
      {"a", "a"}, {"b", "b", "", "", 1}, {"key", "label", "", "", 2}, {"empty", "empty"}};
  Table table(columns);
  table.add({std::string(20, 'a'), std::string(40, 'b'), wide, nullptr});
  const std::string text = to_text(table);
  CHECK(text.find(wide) == std::string::npos);
  CHECK(text.find("Also in --json: key\n") != std::string::npos);
  CHECK(text.find(std::string(40, 'b')) != std::string::npos);
  CHECK(text.find("empty") == std::string::npos);
}

TEST_CASE("a table whose columns may not be omitted shortens texts, then omits its last columns") {
  static constexpr Column kColumns[] = {{"name", "name"}, {"loss", "loss"}, {"last", "last"}};
  const std::string path = "/home/é/" + std::string(90, 'd') + "/x.txt", word(90, 'w');
  const auto text_with = [&](const Value& name, const Value& last) {
    Table table(kColumns);
    table.add({name, 0.5, last});
    const std::string text = to_text(table);
    INFO(text);
    for (const std::string& line : heed::split(text, '\n'))
      CHECK(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }) <=
            80);
    return text;
  };
  CHECK_THAT(text_with(path, 1), Contains("/home/é/ddd") && Contains("…") && Contains("/x.txt "));
  CHECK_THAT(text_with("a", path), Contains("a      0.5  /home/é/d") && Contains("d/x.txt\n"));
  CHECK_THAT(text_with("a", "b " + word + " c"), Contains("0.5  b www") && Contains("www c\n"));
  CHECK_THAT(text_with(path, word), Contains("/x.txt") && Contains("…") && Contains("  0.5  w"));
  std::vector<Column> many{{"name", "name"}};
  for (const char* key : {"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"})
    many.push_back({key, key});
  Table numbers(many);
  numbers.add({path, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, std::int64_t{1234567890123456789}});
  CHECK(to_text(numbers).find("Also in --json: k8\n") != std::string::npos);
}

TEST_CASE("an undeclared key, a key set twice and a row of the wrong length throw logic_error") {
  Report report(kReport);
  CHECK_THROWS_AS(report.set("loss", 1), std::logic_error);
  report.set("run", 1);
  CHECK_THROWS_AS(report.set("run", 1), std::logic_error);
  CHECK_THROWS_AS(report.table("rows").add({1}), std::logic_error);
  CHECK_THROWS_AS(report.table("pair"), std::logic_error);
  CHECK_THROWS_AS(object_of(kPair, {1}), std::logic_error);
}

}  // namespace
