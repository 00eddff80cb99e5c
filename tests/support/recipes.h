// Helpers for tests of recipes: trains a recipe and checks bounds that hold for every recipe.
#pragma once

#include "nn/train/trainer.h"
#include "tests/support/catch.h"

namespace heed::nn::testing {

/// A trained recipe, with its evaluation on the whole evaluation set.
struct Trained {
  Trainer trainer;
  Evaluation result;
};

/// Returns the loss minus the optimal loss, in nats per token.
inline double gap(const Evaluation& e) { return e.loss - e.optimal.value(); }

/// Returns the reference loss with this name; the test fails if there is none.
inline double reference(const Evaluation& e, const std::string& name) {
  for (const auto& [known, loss] : e.references)
    if (known == name) return loss;
  FAIL("no reference " << name);
  return 0;
}

/// Returns true if HEED_SEEDS=1, as in tools/test. Then each recipe runs with one seed and may end
/// when it reaches its goal, and control runs are as short as possible. ctest -L tasks runs all of
/// it.
inline bool short_form() {
  const char* most = std::getenv("HEED_SEEDS");
  return most && std::stoll(most) <= 1;
}

/// Returns true if an evaluation on the whole evaluation set is within the recipe's bounds.
using Goal = std::function<bool(const Evaluation&)>;

/// Trains a configuration and checks that the loss is not below the optimal loss by more than 4
/// standard errors. Checks the goal if one is given. In short form, the goal is tested every 50
/// steps, and the run ends when it is reached.
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

/// Returns the seeds 1 to `count`, but at most HEED_SEEDS of them. tools/test sets HEED_SEEDS=1;
/// ctest -L tasks does not set it.
inline std::vector<std::int64_t> seeds_to(std::int64_t count) {
  const char* most = std::getenv("HEED_SEEDS");
  if (most) count = std::clamp<std::int64_t>(std::stoll(most), 1, count);
  std::vector<std::int64_t> seeds;
  for (std::int64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

/// Returns a preset with this seed.
inline RunConfig seeded(const std::string& name, std::int64_t seed) {
  RunConfig config = preset(name);
  config.seed = seed;
  return config;
}

}  // namespace heed::nn::testing
