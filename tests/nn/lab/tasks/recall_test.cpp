// Tests of the task `recall`: pairs, queries and prompts.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

TEST_CASE("recall: each key has a value and is queried once", "[tasks][recall]") {
  const auto task = make_task("recall");
  REQUIRE(task->info().accuracy_references.at("values unbound") == 0.125);  // 8 values
  Generator g(51);
  std::map<std::string, int> places, keys, values;
  const int draws = 2000;
  for (const Row& row : rows_of(task->sample(draws, g))) {
    std::map<Index, Index> value_of;
    std::set<Index> distinct;
    for (std::size_t i = 0; i < 16; i += 2) {
      value_of[row.inputs[i]] = row.inputs[i + 1];
      distinct.insert(row.inputs[i + 1]);
      REQUIRE((row.inputs[i] >= 1 && row.inputs[i] < 32));
      REQUIRE((row.inputs[i + 1] >= 32 && row.inputs[i + 1] < 64));
      ++keys[std::to_string(row.inputs[i])];
      ++values[std::to_string(row.inputs[i + 1])];
    }
    REQUIRE(value_of.size() == 8);
    REQUIRE(distinct.size() == 8);
    std::set<Index> asked;
    for (std::size_t t = 0; t < 48; ++t) {
      REQUIRE(row.counted[t] == (row.targets[t] != kIgnored));
      if (!row.counted[t]) {
        if (t >= 16) REQUIRE(row.inputs[t] == 0);
        continue;
      }
      REQUIRE(t >= 16);
      REQUIRE(row.targets[t] == value_of.at(row.inputs[t]));
      asked.insert(row.inputs[t]);
      ++places[std::to_string(t)];
    }
    REQUIRE(asked.size() == 8);
  }
  // Because keys are drawn without replacement, the statistic is on average smaller than
  // chi-square. So the limit of chi-square is valid.
  REQUIRE(chi_square(places, 32, 8 * draws) < chi_square_limit(32));
  REQUIRE(chi_square(keys, 31, 8 * draws) < chi_square_limit(31));
  REQUIRE(chi_square(values, 32, 8 * draws) < chi_square_limit(32));
}

TEST_CASE("recall: prompts and errors", "[tasks][recall]") {
  const auto task = make_task("recall");
  const std::string pairs = "aZbYcXdWeVfUgThS";
  const Row row = rows_of(task->prompt(pairs + "..c.xa"))[0];
  REQUIRE(text_of(*task, row.inputs) == pairs + "..c.xa");
  for (std::size_t t = 0; t < 18; ++t) REQUIRE(row.targets[t] == kIgnored);
  REQUIRE(text_of(*task, {row.targets[18]}) == "X");
  REQUIRE(row.targets[20] == kIgnored);  // x is not a key in the pairs of this prompt
  REQUIRE(text_of(*task, {row.targets[21]}) == "Z");
  REQUIRE((row.counted[18] && row.counted[21] && !row.counted[19] && !row.counted[20]));
  for (const std::string& wrong : {pairs, std::string("aZ.a"), std::string(), "." + pairs})
    REQUIRE(error_of([&] { task->prompt(wrong); }) ==
            "recall: a prompt needs 8 pairs of a key (a-z 0-4) and a value (A-Z 5-9 *), then at "
            "least a key, got '" +
                wrong + "'");
  REQUIRE(make_recall({.pairs = 3, .context = 9})->info().context == 9);
  REQUIRE_THROWS_AS(make_recall({.pairs = 3, .context = 8}), ValueError);
  REQUIRE_THROWS_AS(make_recall({.pairs = 0}), ValueError);
  REQUIRE_THROWS_AS(make_recall({.pairs = 32, .context = 200}), ValueError);
}

}  // namespace
