// What the tests of the recipes share: a run to its end, and bounds that every one keeps.
#pragma once

#include "nn/train/trainer.h"
#include "tests/support/catch.h"

namespace heed::nn::testing {

/// Trains a recipe to its end and evaluates it on the whole evaluation set.
struct Trained {
  Trainer trainer;
  Evaluation result;
};

inline double gap(const Evaluation& e) { return e.loss - e.optimal.value(); }

/// The evaluation's reference loss of this name.
inline double reference(const Evaluation& e, const std::string& name) {
  for (const auto& [known, loss] : e.references)
    if (known == name) return loss;
  FAIL("no reference " << name);
  return 0;
}

/// HEED_SEEDS=1, the form of tools/test: one seed of each recipe, which may end when its goal is
/// reached, and no more of a control than shows it. ctest -L tasks has all of it.
inline bool short_form() {
  const char* most = std::getenv("HEED_SEEDS");
  return most && std::stoll(most) <= 1;
}

/// What a recipe is to reach: bounds on the whole evaluation set.
using Goal = std::function<bool(const Evaluation&)>;

/// A run on this preset, never below the optimum by more than chance. In short form it ends at the
/// first 50 steps after which the goal, if one is given, is reached.
inline Trained trained(const RunConfig& config, const Goal& goal = {}) {
  Trainer trainer(config);
  bool reached = false;
  while (trainer.steps_done < trainer.config().steps && !reached) {
    trainer.step();
    reached = goal && short_form() && trainer.steps_done % 50 == 0 && goal(trainer.evaluate(true));
  }
  Evaluation result = trainer.evaluate(true);
  std::cout << config.task << ", seed " << config.seed << ", layers " << config.model.layers
            << ", step " << trainer.steps_done << ": loss " << result.loss << ", optimal "
            << result.optimal.value_or(-1) << ", accuracy " << result.accuracy.value_or(-1)
            << std::endl;
  if (goal) CHECK(goal(result));
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
