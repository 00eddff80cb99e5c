// What the tests of the recipes share: a run to its end, and bounds that every one keeps.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "nn/train/trainer.h"
#include "tests/support/catch.h"

namespace heed::nn::testing {

/// Trains a recipe to its end and evaluates it on the whole evaluation set.
struct Trained {
  Trainer trainer;
  Evaluation result;
};

inline double gap(const Evaluation& e) { return e.loss - e.optimal.value(); }

/// The loss of a run on this preset, never below the optimum by more than chance.
inline Trained trained(const RunConfig& config) {
  Trainer trainer(config);
  while (trainer.steps_done < trainer.config().steps) trainer.step();
  Evaluation result = trainer.evaluate(true);
  std::cout << config.task << ", seed " << config.seed << ", layers " << config.layers << ": loss "
            << result.loss << ", optimal " << result.optimal.value_or(-1) << ", accuracy "
            << result.accuracy.value_or(-1) << std::endl;
  if (result.optimal) {
    CHECK_FALSE(leaks(result));
    CHECK(gap(result) >= -4 * result.standard_error.value() - 1e-12);
  }
  return {std::move(trainer), result};
}

/// 1 to `count`; no more than HEED_SEEDS, by which tools/test asks for one, ctest -L tasks for all.
inline std::vector<std::int64_t> seeds_to(std::int64_t count) {
  const char* most = std::getenv("HEED_SEEDS");
  if (most) count = std::clamp<std::int64_t>(std::stoll(most), 1, count);
  std::vector<std::int64_t> seeds;
  for (std::int64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

inline RunConfig seeded(const std::string& name, std::int64_t seed) {
  RunConfig config = preset(name);
  config.seed = seed;
  return config;
}

}  // namespace heed::nn::testing
