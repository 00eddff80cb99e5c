// Test of the task `random`: its optimal loss, which is computed without code of the task.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

TEST_CASE("random: all tokens are equally likely after every token, so the optimum is ln V",
          "[tasks]") {
  const auto task = make_task("random", 3, {{"vocabulary", "4"}});
  // Computes the Bayes-optimal loss from all 64 sequences, which have equal probabilities.
  Prefixes mass;
  for (std::int64_t a = 0; a < 4; ++a)
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t c = 0; c < 4; ++c) add_sequence(mass, {a, b, c}, 1.0 / 64);
  CHECK(bayes_nats(mass, {3, 0, 0}) / 3 == Approx(std::log(4.0)).epsilon(1e-14));
  CHECK(task->info().optimal == Approx(bayes_nats(mass, {1, 2, 3}) / 3).epsilon(1e-14));
  Generator g(5);
  std::map<std::string, int> drawn;
  const int draws = 6400;
  const Batch batch = task->sample(draws, g);
  for (const Row& row : rows_of(batch)) {
    CHECK(row.inputs[0] == 4);
    CHECK(Ids(row.inputs.begin() + 1, row.inputs.end()) ==
          Ids(row.targets.begin(), row.targets.end() - 1));
    ++drawn[text_of(*task, row.targets)];
  }
  CHECK(chi_square(drawn, 64, draws) < chi_square_limit(64));
  for (const double optimal : batch.optimal) CHECK(optimal == Approx(std::log(4.0)));
}

}  // namespace
