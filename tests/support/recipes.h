// What the tests of the recipes share: a run to its end, and bounds that every one keeps.
#pragma once

#include <iostream>

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

inline RunConfig seeded(const std::string& name, std::int64_t seed) {
  RunConfig config = preset(name);
  config.seed = seed;
  return config;
}

}  // namespace heed::nn::testing
