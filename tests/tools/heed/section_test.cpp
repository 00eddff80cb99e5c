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
  const plot::HeatmapGrid grid{
      .title = "G", .panels = {{.title = "p", .rows = 2, .cols = 1, .values = {0.5F, -2}}}};
  const plot::Network network{
      .title = "N", .nodes = {{"a", 0, 0}, {"b", 1, 2}}, .edges = {{"a", "b", "a:b", -6.5}}};
  Section section{.key = "k", .title = "K", .sentences = {"s"}, .tables = {table}};
  const plot::ChartStack stack{
      .title = "S",
      .panels = {{.x_name = "x", .y_name = "y", .series = {{.name = "s", .x = {1}, .y = {2}}}}}};
  section.pictures = {{"g", grid}, {"n", network}, {"c", stack}};
  const std::string json = sections_json({section}).dump();
  CHECK(
      json ==
      R"([{"key":"k","title":"K","sentences":["s"],"tables":[)"
      R"({"title":"T","what":"how to read it","columns":[{"name":"head","unit":""},)"
      R"({"name":"effect","unit":"nats"}],"rows":[["L0H0",0.12345678],["ä",null],["L1H0",-2.0]]}],)"
      R"("maps":[{"title":"G","what":"","signed":false,"row_axis":"","column_axis":"","rows":[],)"
      R"("columns":[],"panels":[{"title":"p","values":[[0.5],[-2.0]]}]}],)"
      R"("charts":[{"title":"S","x_name":"x","y_name":"y","kind":"curves",)"
      R"("series":[{"name":"s","x":[1.0],"y":[2.0]}]}],)"
      R"("network":{"title":"N","what":"","nodes":[{"name":"a","column":0,"row":0},)"
      R"({"name":"b","column":1,"row":2}],)"
      R"("edges":[{"from":0,"to":1,"name":"a:b","value":-6.5}]}}])");
}

TEST_CASE("a table of evidence has effects, predictions and marks, the largest effect first") {
  const std::vector<nn::Evidence> rows = {
      {"L0H1", {0.001, 0.01, 32}, {{"gradient", {0}}}, nn::Effect{2}},
      {"L0MLP", {-0.5, 0.01, 32}, {{"gradient", {0.4}}, {"softmax exact", {-0.4}}}},
      {"L0H0", {0.01, 0.01, 32}, {}}};
  const nn::Judgement judgement = nn::judge(rows, 0.1);
  const Table sorted = evidence_table("component", rows, judgement, true, true);
  const auto text = [&](std::size_t row, const char* column) {
    const auto found = std::ranges::find(sorted.columns, column, &Column::name);
    return sorted.rows[row][std::size_t(found - sorted.columns.begin())].dump();
  };
  CHECK(text(0, "component") == "\"L0H1\"");
  CHECK(text(0, "needed") == "0.001");
  CHECK(text(0, "suffices") == "2.0");
  CHECK(text(0, "mark") == "\"redundant\"");
  CHECK(text(1, "error") == "0.01");
  CHECK(text(1, "suffices") == "null");
  CHECK(text(1, "gradient") == "0.4");
  CHECK(text(1, "softmax exact") == "-0.4");
  CHECK(text(1, "mark") == "\"reversed\"");
  CHECK(text(2, "gradient") == "null");
  CHECK(evidence_table("component", rows, judgement, false, false).rows[0].back().dump() == "null");
  CHECK(finding_of(rows, judgement) == "L0MLP -0.5, 3 rows");
  CHECK(finding_of(rows, nn::judge(rows, HUGE_VAL)) == "not judged, 3 rows");
  CHECK(finding_of({rows[0]}, nn::judge({rows[0]}, 1)) == "nothing that counts, 1 row");
}

}  // namespace
