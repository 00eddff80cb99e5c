// The presets of sort, adder, parity, majority and random reach their targets (label tasks).
#include <cmath>

#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("sort: all of the quarter held out is right, for seeds 1 to 3") {
  const Goal goal = [](const Evaluation& e) { return *e.accuracy == 1 && e.loss < 0.01; };
  for (const std::int64_t seed : seeds_to(3))
    CHECK(trained(seeded("sort", seed), goal).result.sequences == 182);
}

TEST_CASE("adder: at least 97 % of the sums held out") {
  const Goal goal = [](const Evaluation& e) { return *e.accuracy >= 0.97; };
  for (const std::int64_t seed : seeds_to(3)) trained(seeded("adder", seed), goal);
}

TEST_CASE("parity is not learned: a coin") {
  for (const std::int64_t seed : seeds_to(3)) {
    RunConfig config = seeded("parity", seed);
    if (short_form()) config.steps = 200;
    const Evaluation e = trained(config).result;
    CHECK(e.loss >= 0.68);
    CHECK(e.loss <= 0.70);
    CHECK(std::abs(*e.accuracy - 0.5) < 4 * 0.5 / std::sqrt(1024.0));
  }
}

TEST_CASE("majority is learned") {
  const Goal goal = [](const Evaluation& e) { return *e.accuracy >= 0.99; };
  for (const std::int64_t seed : seeds_to(3)) trained(seeded("majority", seed), goal);
}

TEST_CASE("random: nobody gets below ln V") {
  for (const std::int64_t seed : seeds_to(3)) {
    const Evaluation e = trained(seeded("random", seed)).result;
    CHECK(std::abs(e.loss - std::log(32.0)) <= 4 * *e.standard_error);
  }
}
