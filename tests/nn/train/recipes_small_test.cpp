// The presets of sort, adder, parity, majority and random reach their targets (label tasks).
#include <cmath>

#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("sort: all of the quarter held out is right, for seeds 1 to 3") {
  for (const std::int64_t seed : seeds_to(3)) {
    const Evaluation e = trained(seeded("sort", seed)).result;
    CHECK(*e.accuracy == 1);
    CHECK(e.sequences == 182);
    CHECK(e.loss < 0.01);
  }
}

TEST_CASE("adder: at least 97 % of the sums held out") {
  CHECK(*trained(preset("adder")).result.accuracy >= 0.97);
}

TEST_CASE("parity is not learned: a coin") {
  for (const std::int64_t seed : seeds_to(3)) {
    const Evaluation e = trained(seeded("parity", seed)).result;
    CHECK(e.loss >= 0.68);
    CHECK(e.loss <= 0.70);
    CHECK(std::abs(*e.accuracy - 0.5) < 4 * 0.5 / std::sqrt(1024.0));
  }
}

TEST_CASE("majority is learned") { CHECK(*trained(preset("majority")).result.accuracy >= 0.99); }

TEST_CASE("random: nobody gets below ln V") {
  for (const std::int64_t seed : seeds_to(3)) {
    const Evaluation e = trained(seeded("random", seed)).result;
    CHECK(std::abs(e.loss - std::log(32.0)) <= 4 * *e.standard_error);
  }
}
