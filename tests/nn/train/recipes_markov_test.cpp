// Test of the preset markov-phases. The loss has a plateau at the loss of the unigram rule, which
// predicts each symbol with its frequency, before it falls towards the optimal loss.
#include <algorithm>

#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("markov-phases has a plateau at the unigram rule, then falls below it") {
  for (const std::int64_t seed : seeds_to(3)) {
    Trainer t(seeded("markov-phases", seed));
    double nearest = 1;
    bool left = false;  // true after the plateau, in the short version of the test
    while (t.steps_done < t.config().steps && !left) {
      t.step();
      if (t.steps_done % 25 != 0 || (t.steps_done > 300 && !short_form())) continue;
      const Evaluation e = t.evaluate(false);
      const double below = reference(e, "unigram rule") - e.loss;
      nearest = std::min(nearest, std::abs(below));
      left = short_form() && nearest <= 0.005 && below >= 0.04;
    }
    const Evaluation e = t.evaluate(true);
    const double below = reference(e, "unigram rule") - e.loss;
    std::cout << "markov-phases, seed " << seed << ": within " << nearest
              << " of the unigram rule, at the end " << below << " below it" << std::endl;
    CHECK_FALSE(leaks(e));
    CHECK(nearest <= 0.005);
    CHECK(below >= 0.03);
  }
}
