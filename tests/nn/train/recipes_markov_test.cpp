// markov: close to Bayes, and the plateau at the unigram rule on the way.
#include <algorithm>

#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

namespace {

double reference(const Evaluation& e, const std::string& name) {
  for (const auto& [known, loss] : e.references)
    if (known == name) return loss;
  FAIL("no reference " << name);
  return 0;
}

}  // namespace

TEST_CASE("markov ends within 0.02 nats of Bayes, far below the unigram rule") {
  for (const std::int64_t seed : seeds_to(3)) {
    const Evaluation e = trained(seeded("markov", seed)).result;
    CHECK(gap(e) <= 0.02);
    CHECK(e.loss < reference(e, "unigram rule") - 0.04);
  }
}

TEST_CASE("markov-phases rests at the unigram rule, then leaves it") {
  for (const std::int64_t seed : seeds_to(3)) {
    Trainer t(seeded("markov-phases", seed));
    double nearest = 1;
    while (t.steps_done < t.config().steps) {
      t.step();
      if (t.steps_done % 25 != 0 || t.steps_done > 300) continue;
      const Evaluation e = t.evaluate(false);
      nearest = std::min(nearest, std::abs(e.loss - reference(e, "unigram rule")));
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
