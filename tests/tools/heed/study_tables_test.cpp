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

TEST_CASE("the row of a head has every number, its effects and their mark") {
  nn::Study study;
  study.heads.resize(2);
  study.heads[1].head = 1;
  HeadStudy effects, none;
  effects.measured = std::make_unique<nn::MeasuredHeads>();
  nn::MeasuredHeads& measured = *effects.measured;
  measured.heads.resize(2);
  measured.value.sequences = 32;
  measured.heads[0].needed = {-0.5, 0.01, 0.5, 32}, measured.heads[0].gradient.mean = 0.4;
  measured.heads[1].needed = {0.001, 0.01, 0.5, 32}, measured.heads[1].suffices.mean = -2;
  for (const nn::MeasuredHead& h : measured.heads)
    effects.summary.findings.push_back({&h, 0.1, {}, true, true});
  Table known(head_columns()), unknown(head_columns());
  add_heads(unknown, study, none);
  add_heads(known, study, effects);
  const auto json = list_of(known);
  CHECK(json.items().size() == 2);
  CHECK(json.items()[0].entries().size() == 2 + nn::head_quantities().size() + 4);
  CHECK(*json.items()[0].find("mark") == "reversed");
  CHECK(*json.items()[1].find("mark") == "redundant");
  CHECK(json.items()[1].find("suffices")->number() == -2);
  CHECK(json.items()[0].find("predicted")->number() == 0.4);
  CHECK(to_text(known).find("uniform") != std::string::npos);
  CHECK(*list_of(unknown).items()[1].find("needed") == nullptr);
  for (const char* heading : {"prev", "ind", "|dL/dv|", "needed", "mark"})
    CHECK(to_text(known).find(heading) < to_text(known).find('\n'));
  CHECK(known.note.find("on 32 sequences of the task") != std::string::npos);
  CHECK(unknown.note.find("needed") == std::string::npos);
  measured.heads[0].needed.sequences = measured.heads[1].needed.sequences = 1;
  Table one(head_columns());
  add_heads(one, study, effects);
  CHECK(*list_of(one).items()[0].find("mark") == nullptr);
}

}  // namespace
