// dyck: close to Bayes, and brackets closed rightly.
#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("dyck ends within 0.03 nats of Bayes and closes 99 % of the brackets rightly") {
  const Goal goal = [](const Evaluation& e) { return gap(e) <= 0.03 && *e.accuracy >= 0.99; };
  for (const std::int64_t seed : seeds_to(3)) trained(seeded("dyck", seed), goal);
}
