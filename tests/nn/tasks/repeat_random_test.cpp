// Tests of repeated random tokens.
#include "nn/tasks/repeat_random.h"

#include <set>

#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("repeated tokens begin with BOS, repeat exactly, and count from the second copy on") {
  const auto task = make_task("induction");
  Generator g(3);
  const RepeatedTokens sizes{5, 3};
  std::set<std::int64_t> seen;
  for (const Row& row : rows_of(repeated_random(task->info(), sizes, 40, g))) {
    REQUIRE(row.inputs.size() == 16);
    CHECK(row.inputs[0] == *task->info().bos);
    for (std::size_t t = 1; t < 16; ++t) {
      seen.insert(row.inputs[t]);
      if (t > 5) CHECK(row.inputs[t] == row.inputs[t - 5]);
      CHECK(row.targets[t - 1] == row.inputs[t]);
      // Position t - 1 predicts token t. Tokens 6 to 15 are in the second and third copy.
      CHECK(row.counted[t - 1] == (t >= 6));
    }
    CHECK(row.targets[15] == kIgnored);
    CHECK_FALSE(row.counted[15]);
  }
  CHECK(seen.size() == 32);    // all tokens of the vocabulary
  CHECK(seen.count(32) == 0);  // BOS
  CHECK(sizes.text() == "5 random tokens, 3 times");
}

TEST_CASE("sizes have defaults and limits by the context") {
  CHECK(RepeatedTokens::for_context(48).tokens == 11);
  CHECK(RepeatedTokens::for_context(48).copies == 4);
  CHECK(RepeatedTokens::for_context(1000).tokens == 25);
  const TaskInfo info = make_task("induction")->info();
  CHECK(RepeatedTokens::parse("x", "23x2", info).tokens == 23);
  CHECK_THROWS_WITH(RepeatedTokens::parse("x", "24x2", info),
                    "x: '24x2': the model reads at most 47 tokens after BOS");
  CHECK_THROWS_WITH(RepeatedTokens::parse("x", "9223372036854775807x2", info),
                    Contains("the model reads at most 47"));
  for (const char* text : {"", "5", "x", "5x", "x4", "1x4", "5x1", "-5x4", "5x4x2", "5X4", "5.5x4"})
    CHECK_THROWS_WITH(RepeatedTokens::parse("x", text, info), Contains("such as 25x4"));
}

TEST_CASE("the tasks whose models predict their own inputs") {
  std::set<std::string> found;
  for (const std::string& name : task_names())
    if (predicts_its_inputs(*make_task(name))) found.insert(name);
  CHECK(found == std::set<std::string>{"induction", "dyck", "markov", "random"});
}

}  // namespace
