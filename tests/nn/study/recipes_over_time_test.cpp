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
#include <map>
#include <ranges>

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
  const Batch batch = evaluation_over_time(trainer.model, *trainer.task);
  return over_time(trainer.model, run.checkpoints(), {.batch = batch, .evaluation = batch});
}

// Checks one run. `ratio` is the smallest accepted ratio of the largest to the smallest |dL/dW_Q|
// of layer 1, the norm over all of its heads.
void check_phase_change(std::int64_t seed, const std::string& periods, double ratio) {
  const OverTime study = studied_run(seed, periods);
  REQUIRE(study.steps.size() == 41);
  const auto fall = steepest_fall(study);
  REQUIRE(fall);
  double forms = NAN;                      // first step with an induction score of 0.5 in layer 1
  std::map<std::int64_t, double> squares;  // of |dL/dW_Q|, by step
  for (const auto& [step, place, quantity, value] : study.numbers) {
    if (place.layer != 1) continue;
    if (quantity == "induction" && value >= 0.5 && std::isnan(forms)) forms = double(step);
    if (quantity == "dW_Q" && step >= 40 && step <= 300) squares[step] += value * value;
  }
  const auto norm = [](const auto& of_step) { return std::sqrt(of_step.second); };
  const auto [least, most] = std::ranges::minmax(squares | std::views::transform(norm));
  std::cout << "periods " << periods << ", seed " << seed << ": the repeat loss falls fastest from "
            << fall->from << " to " << fall->to << ", induction score 0.5 at " << forms
            << ", layer 1's |dL/dW_Q| " << least << " to " << most << ", ratio " << most / least
            << std::endl;
  CHECK(std::abs(forms - fall->middle()) <= 40);
  CHECK(most / least >= ratio);
}

TEST_CASE("an induction head forms where the repeat loss falls, and its queries' gradient grows") {
  for (const std::int64_t seed : seeds_to(5)) {
    check_phase_change(seed, "3..24", 7);
    check_phase_change(seed, "12..24", 50);
  }
}

}  // namespace
