// Tests of seconds_by_turn(), which times functions in turns, and of medians of the measured times.
#include "tools/bench/turns.h"

#include "tests/support/catch.h"

using namespace heed;

namespace {

TEST_CASE("a change in the machine's speed does not affect the ratio of turns") {
  // Without disturbance, function a takes 2 s and function b takes 1 s. In turns 0 and 1 only b is
  // disturbed, and in turns 2 and 3 the machine is ten times slower. The median of a is then from a
  // fast turn, and the median of b from a disturbed turn, so the ratio of the medians is wrong. The
  // median of the ratios is correct.
  const std::vector<double> a = {2, 2, 20, 20, 2}, b = {9, 9, 10, 10, 1};
  CHECK(median(a) / median(b) < 0.3);
  CHECK(median_ratio(a, b) == 2);
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
  // Two calls each before the first turn, then in each turn one call to warm up and one timed call.
  CHECK(log == "aabbaabbaabbaabb");
  REQUIRE(times.size() == 2);
  for (const double s : times[0]) CHECK(s >= 2e-3);
  for (const double s : times[1]) CHECK(s >= 4e-3);
  CHECK(times[0].size() == 3);
}

TEST_CASE("a call that fills a turn is timed warm") {
  char last = 0;
  // The first call after another function takes 20 ms, and the next calls take 2 ms.
  const auto cached = [&](char name) {
    return [&last, name] {
      std::this_thread::sleep_for(std::chrono::milliseconds(last == name ? 2 : 20));
      last = name;
    };
  };
  for (const auto& times : seconds_by_turn({cached('a'), cached('b')}, 5, 1e-3))
    CHECK(median(times) < 10e-3);
}

TEST_CASE("before_turn() is called once before each turn") {
  std::string log;
  seconds_by_turn({[&] {
                    log += 'f';
                    std::this_thread::sleep_for(std::chrono::milliseconds(2));
                  }},
                  3, 1e-3, [&](int turn) { log += std::to_string(turn); });
  CHECK(log == "ff0ff1ff2ff");
}

}  // namespace
