// Tests of the tasks `reverse` and `copy`: sequences and prompts.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

TEST_CASE("reverse and copy", "[tasks][reverse]") {
  for (const bool copy : {false, true}) {
    const auto task = make_task(copy ? "copy" : "reverse");
    REQUIRE(task->info().context == 32);
    REQUIRE(task->info().optimal == 0);
    Generator g(31);
    std::map<std::string, int> seen;
    for (const Row& row : rows_of(task->sample(500, g))) {
      REQUIRE(row.inputs[16] == 16);
      for (std::size_t i = 0; i < 16; ++i) {
        REQUIRE(row.targets[i] == kIgnored);
        REQUIRE(!row.counted[i]);
        REQUIRE(row.targets[16 + i] == row.inputs[copy ? i : 15 - i]);
        REQUIRE(row.counted[16 + i]);
        ++seen[std::to_string(row.inputs[i])];
      }
    }
    REQUIRE(chi_square(seen, 16, 8000) < chi_square_limit(16));

    const std::string letters = "abcdefghijklmnop";
    const Row prompt = rows_of(task->prompt(letters))[0];
    REQUIRE(text_of(*task, prompt.inputs) == letters + "|");
    Ids expected(17, kIgnored);
    expected.back() = copy ? 0 : 15;  // the question determines the first token of the answer
    REQUIRE(prompt.targets == expected);
    REQUIRE(prompt.counted.back());
    const Row answered = rows_of(task->prompt(letters + "|" + (copy ? "abc" : "pon")))[0];
    REQUIRE(answered.targets[15] == kIgnored);
    REQUIRE(answered.targets[16] == (copy ? 0 : 15));
    REQUIRE(answered.targets.back() == (copy ? 3 : 12));
    REQUIRE((answered.counted[16] && answered.counted[18] && answered.counted[19]));
    REQUIRE(error_of([&] { task->prompt("abc"); }) ==
            task->info().name + ": a prompt needs exactly 16 tokens before the |, got 3");
    REQUIRE_THROWS_AS(task->prompt(letters + "|" + letters), ValueError);  // 33 tokens, too long
  }
  REQUIRE(make_task("copy", 8)->info().context == 8);
  REQUIRE(error_of([] { make_task("reverse", 9); }) ==
          "reverse: context 9 is odd: needs an even one, half for the tokens and half for the "
          "answer");
  REQUIRE_THROWS_AS(make_task("reverse", 0), ValueError);
}

}  // namespace
