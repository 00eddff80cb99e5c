// The moment an induction head forms, in a study over a run's checkpoints: the induction score
// rises where the repeat loss falls, and the gradient of the queries that find the copy with them
// (tasks.md 4.4). With HEED_SEEDS=1 one seed.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "nn/study/over_time.h"
#include "tests/support/disk.h"
#include "tests/support/recipes.h"

namespace {

using namespace heed::nn;
using namespace heed::nn::testing;

// The study of a run on the preset, saved every 10 steps as heed train --save-every 10 does.
OverTime studied_run(std::int64_t seed) {
  const heed::testing::Folder folder;
  std::filesystem::create_directory(folder.path() / "checkpoints");
  Trainer trainer(seeded("induction", seed));
  const auto save = [&] {
    trainer.save_weights(folder.path() / "checkpoints" /
                         (std::to_string(trainer.steps_done) + ".safetensors"));
  };
  save();
  while (trainer.steps_done < trainer.config().steps) {
    trainer.step();
    if (trainer.steps_done % 10 == 0) save();
  }
  const Batch batch = batch_over_time(trainer.model, *trainer.task);
  return over_time(trainer.model, list_checkpoints(folder.path()), batch);
}

// |dL/dW_Q| of a layer: all heads as one vector.
double query_gradient(const Moment& m, std::int64_t layer) {
  double squares = 0;
  for (const HeadReport& h : m.heads)
    if (h.layer == layer) squares += h.dW_Q * h.dW_Q;
  return std::sqrt(squares);
}

TEST_CASE("an induction head forms where the repeat loss falls, and its queries' gradient peaks") {
  for (const std::int64_t seed : seeds_to(5)) {
    const OverTime study = studied_run(seed);
    REQUIRE(study.moments.size() == 41);
    const auto fall = steepest_fall(study);
    const auto forms = first_reached(study, &HeadReport::induction, 1, 0.5);
    REQUIRE(fall);
    REQUIRE(forms);
    double least = HUGE_VAL, most = 0;
    for (const Moment& m : study.moments) {
      if (m.step < 40 || m.step > 300) continue;
      least = std::min(least, query_gradient(m, 1));
      most = std::max(most, query_gradient(m, 1));
    }
    std::cout << "seed " << seed << ": the repeat loss falls fastest from step " << fall->from
              << " to " << fall->to << ", induction score 0.5 at step " << *forms
              << ", layer 1's |dL/dW_Q| " << least << " to " << most << ", ratio " << most / least
              << std::endl;
    CHECK(std::abs(double(*forms) - fall->middle()) <= 40);
    CHECK(most / least >= 50);
  }
}

}  // namespace
