// Tests of the preset modadd. The model soon memorizes the training sums, and also predicts b + a
// if a + b is a training sum. It learns the remaining sums much later, and only with weight decay
// (grokking).
#include "tests/support/recipes.h"

using namespace heed::lab;
using namespace heed::lab::testing;

namespace {

double train_accuracy(const Trainer& t) {
  Generator g(1);
  const Batch batch = t.task->sample(t.config().batch, g);
  const heed::autograd::NoGrad guard;
  const auto guesses = argmax(t.model(batch.inputs), -1).to_vector<std::int64_t>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  double right = 0, all = 0;
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] != kIgnored) right += guesses[i] == targets[i], all += 1;
  return right / all;
}

// Returns whether a held-out accuracy is close to that of the plateau, f (p-1)/p = 0.49. f = 0.5 is
// the share of the training sums, p = 53 the modulus.
bool on_plateau(double held_out) { return held_out >= 0.46 && held_out <= 0.53; }

// Trains until 99 % of the held-out sums are right, for at most `most` steps. Returns the held-out
// accuracy. During the training, checks that the training sums are memorized by step 150, and that
// the held-out accuracy is on the plateau from step 200 to 400.
double run_to_end(const RunConfig& config, Index most) {
  Trainer t(config);
  double held_out = 0;
  while (t.steps_done < most && !(held_out >= 0.99)) {
    t.step();
    if (t.steps_done % 50 != 0) continue;
    held_out = *t.evaluate(true).accuracy;
    if (t.steps_done == 150) CHECK(train_accuracy(t) >= 0.99);
    INFO("seed " << config.seed << ", step " << t.steps_done << ", held out " << held_out);
    if (t.steps_done >= 200 && t.steps_done <= 400) CHECK(on_plateau(held_out));
  }
  std::cout << "modadd, seed " << config.seed << ", weight decay " << config.weight_decay
            << ": held-out sums right " << held_out << " at step " << t.steps_done << std::endl;
  return held_out;
}

}  // namespace

// The short version of this test (short_form) ends at step 400, when the accuracy is on the
// plateau.
TEST_CASE("modadd has a plateau of accuracy f (p-1)/p, then gets all sums right") {
  for (const std::int64_t seed : seeds_to(3)) {
    const double held_out = run_to_end(seeded("modadd", seed), short_form() ? 400 : 2500);
    if (!short_form()) CHECK(held_out >= 0.99);
  }
}

TEST_CASE("modadd without weight decay stays at accuracy f (p-1)/p") {
  for (const std::int64_t seed : seeds_to(3)) {
    RunConfig config = seeded("modadd", seed);
    config.weight_decay = 0;
    CHECK(on_plateau(run_to_end(config, short_form() ? 200 : 1000)));
  }
}
