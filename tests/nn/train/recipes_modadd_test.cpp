// modadd: the training sums by heart at once, their mirrors with them; the rest long after, and
// only with weight decay (grokking).
#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

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

// Steps until the held-out sums are right, at most `most`. On the way training is learned by heart,
// and, unless the seed is one that generalizes early, the rest stays on the plateau.
void run_to_end(Trainer& t, std::int64_t most, bool plateau = true) {
  bool solved = false;
  while (t.steps_done < most && !solved) {
    t.step();
    if (t.steps_done % 50 != 0) continue;
    const double test = *t.evaluate(true).accuracy;
    if (t.steps_done == 150) CHECK(train_accuracy(t) >= 0.99);
    if (plateau && t.steps_done >= 200 && t.steps_done <= 400) {
      INFO("step " << t.steps_done);
      CHECK(test >= 0.46);
      CHECK(test <= 0.53);
    }
    solved = test >= 0.99;
  }
  std::cout << "modadd, seed " << t.config().seed << ", weight decay " << t.config().weight_decay
            << ": held-out sums right " << *t.evaluate(true).accuracy << " at step " << t.steps_done
            << std::endl;
}

}  // namespace

TEST_CASE("modadd rests at f (p-1)/p, then gets all sums right") {
  Trainer t(preset("modadd"));
  run_to_end(t, 2500);
  CHECK(*t.evaluate(true).accuracy >= 0.99);
}

TEST_CASE("modadd, seeds 2 and 3", "[.][soak_modadd]") {
  for (const std::int64_t seed : {2, 3}) {
    Trainer t(seeded("modadd", seed));
    run_to_end(t, 2500, false);
    CHECK(*t.evaluate(true).accuracy >= 0.99);
  }
}

TEST_CASE("modadd without weight decay stays at f (p-1)/p", "[.][soak_modadd]") {
  RunConfig config = preset("modadd");
  config.weight_decay = 0;
  Trainer t(config);
  run_to_end(t, 1000);
  CHECK(*t.evaluate(true).accuracy >= 0.46);
  CHECK(*t.evaluate(true).accuracy <= 0.53);
}
