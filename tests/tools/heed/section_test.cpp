// Tests of sections: their tables of evidence, and their JSON.
#include "tools/heed/study/section.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace {

using namespace heed;

TEST_CASE("the JSON of a section has all rows, and null for a number that is not finite") {
  const Table table{.columns = {{"head"}, {"effect", "nats"}},
                    .title = "T",
                    .note = "how to read it",
                    .shown = 1,
                    .rows = {{"L0H0", 0.12345678}, {"ä", std::nan("")}, {"L1H0", -2.0}}};
  const Section section{.key = "k", .title = "K", .sentences = {"s"}, .tables = {table}};
  const std::string json = sections_json({section}).dump();
  CHECK(
      json ==
      R"([{"key":"k","title":"K","sentences":["s"],"tables":[)"
      R"({"title":"T","what":"how to read it","columns":[{"name":"head","unit":""},)"
      R"({"name":"effect","unit":"nats"}],"rows":[["L0H0",0.12345678],["ä",null],["L1H0",-2.0]]}]}])");
}

TEST_CASE("a table of evidence has effects and predictions, the largest effect first") {
  std::vector<lab::Evidence> rows = {{"L0H1", {0.001, 0.01, 32}, 0.5, 0},
                                     {"L0MLP", {-0.5, 0.01, 32, 0.03, 0.75}, -0.4, 0.1},
                                     {"embed:V:L0H0", {0.2, 0.01, 32}, 0.3, 0.001, true}};
  const lab::Judgement judgement = lab::judge(rows);
  const Table sorted = evidence_table("component", rows, judgement);
  const auto text = [&](std::size_t row, const char* column) {
    const auto found = std::ranges::find(sorted.columns, column, &Column::name);
    return sorted.rows[row][std::size_t(found - sorted.columns.begin())].dump();
  };
  CHECK(text(0, "component") == "\"L0MLP\"");
  CHECK(text(0, "effect") == "-0.5");
  CHECK(text(0, "error") == "0.01");
  CHECK(text(0, "donors") == "0.03");
  CHECK(text(0, "accuracy") == "0.75");
  CHECK(text(0, "path") == "-0.4");
  CHECK(text(0, "gradient") == "0.1");
  CHECK(text(1, "note") == "\"off-distribution\"");
  CHECK(text(2, "donors") == "null");
  CHECK(measured_text(3, 9) == "3 of 9 measured");
  CHECK(agreement_text(judgement) ==
        "2 of 3 count: effects of at least 0.025, 5 % of the largest.\n"
        "Path gradient: 2 of 2 signs right, 2 within a factor of 3 (median ratio 1.1).\n"
        "Gradient: 1 of 2 signs right, 0 within a factor of 3 (median ratio -0.098).");
  CHECK(agreement_text(lab::judge(rows, HUGE_VAL)).empty());
}

}  // namespace
