// Timing by turns, of functions whose time is known.
#include "tools/heed/bench/turns.h"

#include "tests/support/catch.h"

using namespace heed;

namespace {

TEST_CASE("a drift of the machine leaves the ratio of turns alone") {
  // Ten times slower in turns 2 and 3, where a was not disturbed but b was in turns 0 and 1: the
  // median of a is of a fast turn, that of b of a slow one.
  const std::vector<double> a = {2, 2, 20, 20, 2}, b = {9, 9, 10, 10, 1};
  CHECK(median(a) / median(b) < 0.3);
  CHECK(median_ratio(a, b) == 2);
  CHECK(median(b) - median(a) == 7);
  CHECK(median_difference(b, a) == -1);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2);
}

TEST_CASE("functions take turns") {
  std::string log;
  const auto wait = [&](char name, int ms) {
    return [&log, name, ms] {
      log += name;
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    };
  };
  const auto times = seconds_by_turn({wait('a', 2), wait('b', 4)}, 3, 1e-3);
  CHECK(log == "aabbababab");  // twice to warm up, then once a turn: a call takes longer than one
  REQUIRE(times.size() == 2);
  for (const double s : times[0]) CHECK(s >= 2e-3);
  for (const double s : times[1]) CHECK(s >= 4e-3);
  CHECK(times[0].size() == 3);
}

}  // namespace
