// Tests of the task `urn`. They check its sequences, and compare its optimal loss with an integral
// over the simplex.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("urn: sequences have the distribution of uniform probabilities on the simplex",
          "[tasks][urn]") {
  // The k counts after T draws are uniform over all ways to write T as a sum of k numbers: 21 ways
  // if T is 5 and k is 3.
  const auto task = make_urn({.colors = 3, .context = 5});
  Generator g(21);
  const int draws = 8400;
  std::map<std::string, int> seen, ordered;
  for (const Row& row : rows_of(task->sample(draws, g))) {
    Ids counts(3);
    for (const auto y : row.targets) ++counts[std::size_t(y)];
    ++seen[std::to_string(counts[0]) + "," + std::to_string(counts[1])];
    // The order of the draws does not matter: a single b among four a is equally likely at every
    // position.
    if (counts[0] == 4 && counts[1] == 1) ++ordered[text_of(*task, row.targets)];
  }
  REQUIRE(seen.size() == 21);
  REQUIRE(chi_square(seen, 21, draws) < chi_square_limit(21));
  REQUIRE(chi_square(ordered, 5, seen.at("4,1")) < chi_square_limit(5));
}

TEST_CASE("urn: the optimum equals integration over the simplex", "[tasks][urn]") {
  // The probability of a sequence of 4 tokens, in which token j occurs n_j times, is the mean of
  // p0^n0 p1^n1 p2^n2 over the simplex. The mean is computed with Simpson's rule after the
  // substitution p1 = (1 - p0) u. The integrands are polynomials of low degree, so the error with
  // 64 steps is below 1e-7.
  constexpr int kSteps = 64;
  const auto simpson = [](const std::function<double(double)>& f) {
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i)
      sum += (i == 0 || i == kSteps ? 1 : i % 2 ? 4 : 2) * f(double(i) / kSteps);
    return sum / (3 * kSteps);
  };
  Prefixes mass;
  for (int code = 0; code < 81; ++code) {
    const Ids y{code % 3, code / 3 % 3, code / 9 % 3, code / 27};
    add_sequence(mass, y, simpson([&](double p0) {
                   return simpson([&](double u) {
                     const double p[] = {p0, (1 - p0) * u, (1 - p0) * (1 - u)};
                     double product = 2 * (1 - p0);  // density 2 times Jacobian 1 - p0
                     for (const auto token : y) product *= p[token];
                     return product;
                   });
                 }));
  }
  REQUIRE(mass.at({}) == Approx(1).epsilon(1e-7));
  const auto task = make_urn({.colors = 3, .context = 4});
  double expected = 0;
  for (const auto& [y, probability] : mass)
    if (y.size() == 4) expected += probability * bayes_nats(mass, y) / 4;
  REQUIRE(task->info().optimal == Approx(expected).epsilon(1e-6));
  Generator g(22);
  const Batch batch = task->sample(300, g);
  const auto rows = rows_of(batch);
  for (std::size_t i = 0; i < rows.size(); ++i)
    REQUIRE(batch.optimal[i] == Approx(bayes_nats(mass, rows[i].targets) / 4).epsilon(1e-6));
}

TEST_CASE("urn: expectations", "[tasks][urn]") {
  const auto optimal = [](std::int64_t k, std::int64_t T) {
    return make_urn({.colors = k, .context = T})->info().optimal;
  };
  REQUIRE(optimal(3, 64) == Approx(0.8794).margin(5e-5));
  REQUIRE(optimal(2, 100) == Approx(0.51900).margin(5e-6));
  REQUIRE(optimal(3, 100) == Approx(0.86707).margin(5e-6));
  REQUIRE(optimal(5, 100) == Approx(1.34055).margin(5e-6));
  REQUIRE(optimal(10, 100) == Approx(2.02846).margin(5e-6));
  REQUIRE(optimal(7, 1) == Approx(std::log(7.0)));
  REQUIRE_THROWS_AS(make_urn({.colors = 1}), ValueError);
  REQUIRE_THROWS_AS(make_task("urn", 0), ValueError);
}

}  // namespace
