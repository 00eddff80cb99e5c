// Tests of the formation of an induction head, in studies over the checkpoints of a run: when the
// loss of repeated tokens falls, a head of layer 1 begins to attend to the tokens after earlier
// copies where it matters, its effect grows, and the gradient at the model falls behind the path
// gradient. The environment variable HEED_SEEDS=1 runs one seed instead of five.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "nn/lab/study/over_time.h"
#include "tests/support/disk.h"
#include "tests/support/recipes.h"

namespace {

using namespace heed::lab;
using namespace heed::lab::testing;

// Trains the preset `induction`, saves a checkpoint every 10 steps, and returns the study of all
// checkpoints.
OverTime studied_run(std::int64_t seed) {
  const heed::testing::Folder folder;
  const RunFolder run(folder.path());
  Trainer trainer(seeded("induction", seed));
  run.save_checkpoint(trainer.snapshot());
  while (trainer.steps_done < trainer.config().steps) {
    trainer.step();
    if (trainer.steps_done % 10 == 0) run.save_checkpoint(trainer.snapshot());
  }
  const DonorSample sample = with_donors(trainer.task->evaluation(0, 32));
  return over_time(trainer.model, run.checkpoints(), sample, {Objective::kLogLikelihood});
}

TEST_CASE("an induction head forms where the repeat loss falls") {
  for (const std::int64_t seed : seeds_to(5)) {
    const OverTime study = studied_run(seed);
    REQUIRE(study.steps.size() == 41);
    const auto fall = steepest_fall(study);
    REQUIRE(fall);
    double forms = NAN, effect = 0, path = 0, gradient = 0;
    for (const ComponentCurves& c : study.components) {
      if (!c.head || c.head->layer != 1 || c.pattern != "induction") continue;
      for (std::size_t i = 0; i < study.steps.size(); ++i)
        if (c.score[i] >= 0.5 && !(double(study.steps[i]) >= forms)) forms = double(study.steps[i]);
      if (std::abs(c.effect.back()) < std::abs(effect)) continue;
      effect = c.effect.back(), path = c.path.back(), gradient = c.gradient.back();
    }
    std::cout << "seed " << seed << ": the repeat loss falls fastest from " << fall->from << " to "
              << fall->to << ", score 0.5 at " << forms << "; effect " << effect
              << ", path gradient " << path << ", gradient " << gradient << std::endl;
    CHECK(std::abs(forms - fall->middle()) <= 60);
    CHECK(effect < -0.2);
    CHECK((path / effect > 1.0 / 3 && path / effect < 3));
    CHECK(std::abs(gradient) < std::abs(effect) / 3);
  }
}

}  // namespace
