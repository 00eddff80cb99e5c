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
  const Goal goal = [](const Evaluation& e) {
    return gap(e) <= 0.02 && e.loss < reference(e, "unigram rule") - 0.04;
  };
  for (const std::int64_t seed : seeds_to(3)) trained(seeded("markov", seed), goal);
}

TEST_CASE("markov-phases rests at the unigram rule, then leaves it") {
  for (const std::int64_t seed : seeds_to(3)) {
    Trainer t(seeded("markov-phases", seed));
    double nearest = 1;
    bool left = false;  // the short form ends there
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
