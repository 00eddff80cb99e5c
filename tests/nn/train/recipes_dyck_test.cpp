// dyck: close to Bayes, and brackets closed rightly.
#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("dyck ends within 0.03 nats of Bayes and closes 99 % of the brackets rightly") {
  for (const std::int64_t seed : seeds_to(3)) {
    const Evaluation e = trained(seeded("dyck", seed)).result;
    CHECK(gap(e) <= 0.03);
    CHECK(*e.accuracy >= 0.99);
  }
}
