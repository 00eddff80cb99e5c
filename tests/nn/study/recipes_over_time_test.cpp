// Tests of the formation of an induction head, in studies over the checkpoints of a run. When the
// loss of repeated tokens falls, the induction score must rise, and the gradient of W_Q of layer 1
// must grow. L is log p - log(1 - p), whose gradient also grows after the fall. The environment
// variable HEED_SEEDS=1 runs one seed instead of five.
//
// Measured with seeds 1 to 5: the largest |dL/dW_Q| of layer 1 in steps 40 to 300, divided by the
// smallest, is 201 to 552 on blocks of 12 to 24 tokens. It is 10.5 to 15.0 on blocks of 3 to 24
// tokens, as in the preset. Short blocks repeat so often that an induction head is useful from the
// first step on, so the loss then has no plateau. The score reaches 0.5 at most 15 steps before or
// after the middle of the steepest fall.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "nn/study/over_time.h"
#include "tests/support/disk.h"
#include "tests/support/recipes.h"

namespace {

using namespace heed::nn;
using namespace heed::nn::testing;

// Trains the preset `induction`, saves a checkpoint every 10 steps, and returns the study of all
// checkpoints.
OverTime studied_run(std::int64_t seed, const std::string& periods) {
  const heed::testing::Folder folder;
  const RunFolder run(folder.path());
  RunConfig config = seeded("induction", seed);
  config.task_parameters["periods"] = periods;
  Trainer trainer(config);
  run.save_checkpoint(trainer.snapshot());
  while (trainer.steps_done < trainer.config().steps) {
    trainer.step();
    if (trainer.steps_done % 10 == 0) run.save_checkpoint(trainer.snapshot());
  }
  return over_time(trainer.model, run.checkpoints(),
                   evaluation_over_time(trainer.model, *trainer.task));
}

// Returns |dL/dW_Q| of a layer: the norm over all of its heads.
double query_gradient(const CheckpointStudy& m, std::int64_t layer) {
  double squares = 0;
  for (const HeadReport& h : m.heads)
    if (h.layer == layer) squares += h[kDWQ] * h[kDWQ];
  return std::sqrt(squares);
}

// Checks one run. `ratio` is the smallest accepted ratio of the largest to the smallest gradient
// norm.
void check_phase_change(std::int64_t seed, const std::string& periods, double ratio) {
  const OverTime study = studied_run(seed, periods);
  REQUIRE(study.checkpoints.size() == 41);
  const auto fall = steepest_fall(study);
  const auto forms = first_reached(study, kInduction, 1, 0.5);
  REQUIRE(fall);
  REQUIRE(forms);
  double least = HUGE_VAL, most = 0;
  const auto counts = [](const CheckpointStudy& m) { return m.step >= 40 && m.step <= 300; };
  for (const CheckpointStudy& m : study.checkpoints) {
    if (!counts(m)) continue;
    least = std::min(least, query_gradient(m, 1));
    most = std::max(most, query_gradient(m, 1));
  }
  std::cout << "periods " << periods << ", seed " << seed << ": the repeat loss falls fastest from "
            << fall->from << " to " << fall->to << ", induction score 0.5 at " << *forms
            << ", layer 1's |dL/dW_Q| " << least << " to " << most << ", ratio " << most / least
            << std::endl;
  CHECK(std::abs(double(*forms) - fall->middle()) <= 40);
  CHECK(most / least >= ratio);
}

TEST_CASE("an induction head forms where the repeat loss falls, and its queries' gradient grows") {
  for (const std::int64_t seed : seeds_to(5)) {
    check_phase_change(seed, "3..24", 7);
    check_phase_change(seed, "12..24", 50);
  }
}

}  // namespace
