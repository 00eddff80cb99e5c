// Functions for tests of recipes. A recipe is a configuration that trains a model to a stated
// result. trained() also checks bounds that hold for every recipe.
#pragma once

#include "nn/lab/train/trainer.h"
#include "tests/support/catch.h"

namespace heed::lab::testing {

/// The trainer of a recipe after training, and its evaluation on the whole evaluation set.
struct Trained {
  Trainer trainer;
  Evaluation result;
};

/// Returns the loss of an evaluation minus its optimal loss, in nats per token.
inline double gap(const Evaluation& e) { return e.loss - e.optimal.value(); }

/// Returns the reference loss with the name `name`. If there is none, the test fails.
inline double reference(const Evaluation& e, const std::string& name) {
  for (const auto& [known, loss] : e.references)
    if (known == name) return loss;
  FAIL("no reference " << name);
  return 0;
}

/// Returns true if the environment variable HEED_SEEDS is at most 1, as in tools/test. Then each
/// recipe runs with one seed and may end when it reaches its goal, and control runs are as short as
/// possible. `ctest -L tasks` does not set HEED_SEEDS, and runs all seeds and steps.
inline bool short_form() {
  const char* most = std::getenv("HEED_SEEDS");
  return most && std::stoll(most) <= 1;
}

/// A goal returns true if an evaluation on the whole evaluation set is within the recipe's bounds.
using Goal = std::function<bool(const Evaluation&)>;

/// Trains a configuration. Checks that the loss is at most 4 standard errors below the optimal
/// loss, and that the goal, if there is one, is reached at the end. If short_form() is true, the
/// goal is also tested every 50 steps, and training ends when it is reached.
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

/// Returns the seeds 1 to `count`. If the environment variable HEED_SEEDS is set, it limits the
/// number of seeds. tools/test sets HEED_SEEDS=1, and `ctest -L tasks` does not set it.
inline std::vector<std::int64_t> seeds_to(std::int64_t count) {
  const char* most = std::getenv("HEED_SEEDS");
  if (most) count = std::clamp<Index>(std::stoll(most), 1, count);
  std::vector<std::int64_t> seeds;
  for (std::int64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

/// Returns the preset `name` with the seed `seed`.
inline RunConfig seeded(const std::string& name, std::int64_t seed) {
  RunConfig config = preset(name);
  config.seed = seed;
  return config;
}

}  // namespace heed::lab::testing
