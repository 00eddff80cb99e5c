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
  for (nn::HeadReport& h : study.heads) h.values.fill(0), h[nn::kNeeded] = NAN;
  study.heads[1].head = 1;
  HeadStudy effects, none;
  effects.measured = std::make_unique<nn::MeasuredHeads>();
  nn::MeasuredHeads& measured = *effects.measured;
  measured.reports.resize(2);
  measured.reports[0][nn::kNeeded] = -0.5, measured.reports[0][nn::kPredicted] = 0.4;
  measured.reports[1][nn::kSuffices] = -2;
  measured.value.sequences = 32;
  measured.effects = {{"L0H0", {-0.5, 0.01, 0.5, 32}, {{"gradient", {0.4}}}, nn::Effect{}},
                      {"L0H1", {0.001, 0.01, 0.5, 32}, {{"gradient", {0}}}, nn::Effect{-2}}};
  effects.summary.judgement = nn::judge(measured.effects, 0.1);
  Table known(head_columns()), unknown(head_columns());
  add_heads(unknown, study, none);
  add_heads(known, study, effects);
  const auto json = list_of(known);
  CHECK(json.items().size() == 2);
  CHECK(json.items()[0].entries().size() == 2 + nn::head_quantities().size() + 1);
  CHECK(*json.items()[0].find("mark") == "reversed");
  CHECK(*json.items()[1].find("mark") == "redundant");
  CHECK(json.items()[1].find("suffices")->number() == -2);
  CHECK(json.items()[0].find("predicted")->number() == 0.4);
  CHECK(to_text(known).find("uniform") != std::string::npos);
  CHECK(std::isnan(list_of(unknown).items()[1].find("needed")->number()));
  for (const char* heading : {"prev", "ind", "|dL/dv|", "needed", "mark"})
    CHECK(to_text(known).find(heading) < to_text(known).find('\n'));
  CHECK(known.note.find("on 32 sequences of the task") != std::string::npos);
  CHECK(unknown.note.find("needed") == std::string::npos);
  measured.effects[0].effect.sequences = measured.effects[1].effect.sequences = 1;
  Table one(head_columns());
  add_heads(one, study, effects);
  CHECK(*list_of(one).items()[0].find("mark") == nullptr);
}

}  // namespace
