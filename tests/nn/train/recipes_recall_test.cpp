// recall: two layers solve it, one cannot bind a value to its key.
#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

namespace {

bool solved(const Evaluation& e) { return *e.accuracy >= 0.99; }

}  // namespace

TEST_CASE("recall is solved by two layers, for seeds 1 to 5") {
  for (const std::int64_t seed : seeds_to(5)) trained(seeded("recall", seed), solved);
}

TEST_CASE("recall with random filler is solved by two layers") {
  for (const std::int64_t seed : seeds_to(3)) {
    RunConfig config = seeded("recall", seed);
    config.task_parameters = {{"filler", "random"}};
    trained(config, solved);
  }
}

// The plateau is exact: accuracy 1/K = 0.125, loss ln K = 2.0794.
TEST_CASE("recall with one layer knows the values but not whose, at twice the steps") {
  for (const std::int64_t seed : seeds_to(3)) {
    RunConfig config = seeded("recall", seed);
    config.model.layers = 1, config.steps = short_form() ? 300 : 1000;
    const Evaluation e = trained(config).result;
    CHECK(*e.accuracy >= 0.10);
    CHECK(*e.accuracy <= 0.16);
    CHECK(e.loss >= 2.05);
    if (!short_form()) CHECK(e.loss <= 2.17);
  }
}
