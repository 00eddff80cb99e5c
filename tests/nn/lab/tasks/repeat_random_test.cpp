// Tests of repeated random tokens.
#include "nn/lab/tasks/repeat_random.h"

#include <set>

#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

TEST_CASE("repeated tokens begin with BOS, repeat exactly, and count from the second copy on") {
  const auto task = make_task("induction");
  Generator g(3);
  std::set<std::int64_t> seen;
  for (const Row& row : rows_of(repeated_random(task->info(), 5, 40, g))) {
    REQUIRE(row.inputs.size() == 21);
    CHECK(row.inputs[0] == *task->info().bos);
    for (std::size_t t = 1; t < 21; ++t) {
      seen.insert(row.inputs[t]);
      if (t > 5) CHECK(row.inputs[t] == row.inputs[t - 5]);
      CHECK(row.targets[t - 1] == row.inputs[t]);
      // Position t - 1 predicts token t. Tokens 6 to 20 are in the later copies.
      CHECK(row.counted[t - 1] == (t >= 6));
    }
    CHECK(row.targets[20] == kIgnored);
    CHECK_FALSE(row.counted[20]);
  }
  CHECK(seen.size() == 32);    // all tokens of the vocabulary
  CHECK(seen.count(32) == 0);  // BOS
}

TEST_CASE("the number of repeated tokens depends on the context") {
  CHECK(repeated_tokens(48) == 11);
  CHECK(repeated_tokens(1000) == 25);
}

TEST_CASE("the tasks whose models predict their own inputs") {
  std::set<std::string> found;
  for (const std::string& name : task_names())
    if (predicts_its_inputs(*make_task(name))) found.insert(name);
  CHECK(found == std::set<std::string>{"induction", "dyck", "markov", "random"});
}

}  // namespace
