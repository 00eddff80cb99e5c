// Tests of the tables of a study: their JSON output, and the table of heads.
#include "tools/heed/study/study_tables.h"

#include "tests/support/catch.h"

namespace {

using namespace heed;

TEST_CASE("the JSON of a table has all rows, and null for a number that is not finite") {
  static constexpr Column kColumns[] = {{"", "head"}, {"", "effect", "nats"}};
  Table table(kColumns);
  table.title = "T", table.note = "how to read it", table.shown = 1;
  table.add({"L0H0", 0.12345678}), table.add({"ä", std::nan("")}), table.add({"L1H0", -2.0});
  CHECK(
      tables_json({table}).dump() ==
      R"([{"title":"T","what":"how to read it","columns":[{"name":"head","unit":""},)"
      R"({"name":"effect","unit":"nats"}],"rows":[["L0H0",0.12345678],["ä",null],["L1H0",-2.0]]}])");
}

TEST_CASE("the row of a head has every number and its cut") {
  nn::Study study;
  study.heads.resize(2);
  study.heads[1].head = 1;
  study.heads[0].importance = study.heads[1].importance = 1;
  Table measured(head_columns()), unknown(head_columns());
  add_heads(unknown, study);
  study.heads[0].cut = -0.5, study.heads[1].cut = 0.25;
  add_heads(measured, study);
  const auto json = list_of(measured);
  CHECK(json.items()[0].entries().size() == 2 + nn::head_quantities().size() + 2);
  CHECK(*json.items()[0].find("saturated") == false);
  CHECK(*json.items()[1].find("saturated") == true);
  CHECK(json.items()[1].find("cut")->number() == 0.25);
  CHECK(to_text(measured).find("+0.25*") != std::string::npos);
  CHECK(*list_of(unknown).items()[1].find("cut") == nullptr);
  for (const char* heading : {"prev", "dup", "ind", "|dL/dv|", "cut"})
    CHECK(to_text(measured).find(heading) < to_text(measured).find('\n'));
  CHECK(to_text(measured).find("Also in --json") == std::string::npos);
  CHECK(unknown.note.find("use --ablate all") != std::string::npos);
}

}  // namespace
