// Tests of sections: their tables of evidence, and their JSON.
#include "tools/heed/study/section.h"

#include "tests/support/catch.h"

namespace {

using namespace heed;

TEST_CASE("the JSON of a section has all rows, and null for a number that is not finite") {
  static constexpr Column kColumns[] = {{"", "head"}, {"", "effect", "nats"}};
  Table table(kColumns);
  table.title = "T", table.note = "how to read it", table.shown = 1;
  table.add({"L0H0", 0.12345678}), table.add({"ä", std::nan("")}), table.add({"L1H0", -2.0});
  const plot::HeatmapGrid grid{
      .title = "G", .panels = {{.title = "p", .rows = 2, .cols = 1, .values = {0.5F, -2}}}};
  const plot::Network network{
      .title = "N", .nodes = {{"a", 0, 0}, {"b", 1, 2}}, .edges = {{"a", "b", "a:b", -6.5}}};
  Section section{.key = "k", .title = "K", .sentences = {"s"}, .tables = {table}};
  section.pictures = {{"g", grid}, {"n", network}};
  const std::string json = sections_json({section}).dump();
  CHECK(json.starts_with(
      R"([{"key":"k","title":"K","sentences":["s"],"tables":[)"
      R"({"title":"T","what":"how to read it","columns":[{"name":"head","unit":""},)"
      R"({"name":"effect","unit":"nats"}],"rows":[["L0H0",0.12345678],["ä",null],["L1H0",-2.0]]}])"));
  CHECK(json.find(R"("values":[[0.5],[-2.0]])") != std::string::npos);
  CHECK(json.find(R"("from":0,"to":1,"name":"a:b","value":-6.5)") != std::string::npos);
}

TEST_CASE("a table of evidence has effects, predictions and marks, the largest effect first") {
  const std::vector<nn::Evidence> rows = {
      {"L0H1", {0.001, 0.01, 32}, {{"gradient", {0}}}, nn::Effect{2}},
      {"L0MLP", {-0.5, 0.01, 32}, {{"gradient", {0.4}}, {"softmax exact", {-0.4}}}},
      {"L0H0", {0.01, 0.01, 32}, {}}};
  const nn::Judgement judgement = nn::judge(rows, 0.1);
  const Table sorted = evidence_table("component", rows, judgement, true, true);
  const auto list = list_of(sorted);
  const auto text = [&](std::size_t row, const char* key) {
    return list.items()[row].find(key)->dump();
  };
  CHECK(text(0, "place") == "\"L0H1\"");
  CHECK(text(0, "effect") == "0.001");
  CHECK(text(0, "suffices") == "2.0");
  CHECK(text(0, "mark") == "\"redundant\"");
  CHECK(text(1, "standard_error") == "0.01");
  CHECK(text(1, "suffices") == "null");
  CHECK(text(1, "gradient") == "0.4");
  CHECK(text(1, "softmax_exact") == "-0.4");
  CHECK(text(1, "mark") == "\"reversed\"");
  CHECK(text(2, "gradient") == "null");
  CHECK(evidence_table("component", rows, judgement, false, false).rows[0].back().dump() == "null");
  CHECK(finding_of(rows, judgement) == "L0MLP -0.5, 3 rows");
  CHECK(finding_of(rows, nn::judge(rows, HUGE_VAL)) == "not judged, 3 rows");
  CHECK(finding_of({rows[0]}, nn::judge({rows[0]}, 1)) == "nothing that counts, 1 row");
}

}  // namespace
