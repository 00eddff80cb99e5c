// Tests of the task `markov`. They check its sequences, and compare its optimal loss with an
// integral over the transition probabilities.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

// Returns the probability of a path of k symbols. The first symbol has the factor 1/k. Each row of
// the transition matrix has as its factor the mean over the simplex of the product of its
// transition probabilities. If a row has n transitions, n_j of them to symbol j, the mean is (k-1)!
// n_1! ... n_k! / (n+k-1)!, by the Dirichlet distribution.
double path_probability(const Ids& path, std::size_t k) {
  std::vector<std::vector<double>> counts(k, std::vector<double>(k));
  for (std::size_t t = 1; t < path.size(); ++t)
    counts[std::size_t(path[t - 1])][std::size_t(path[t])] += 1;
  double log_p = -std::log(double(k));
  for (const auto& row : counts) {
    double n = 0;
    for (const double c : row) log_p += std::lgamma(c + 1), n += c;
    log_p += std::lgamma(double(k)) - std::lgamma(n + double(k));
  }
  return std::exp(log_p);
}

template <class F>
void each_path(std::size_t length, std::size_t k, F f) {
  Ids path(length, 0);
  for (;;) {
    f(path);
    std::size_t i = 0;
    while (i < length && ++path[i] == Index(k)) path[i++] = 0;
    if (i == length) return;
  }
}

// Returns the loss in nats, summed from token 1 to the end, of the predictor that counts symbols
// but not transitions.
double unigram_nats(const Ids& path, std::size_t k) {
  std::vector<double> seen(k, 1);
  double nats = 0;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (t > 0) nats -= std::log(seen[std::size_t(path[t])] / double(t + k));
    seen[std::size_t(path[t])] += 1;
  }
  return nats;
}

TEST_CASE("markov: the optimum equals Bayes' rule over all paths", "[tasks][markov]") {
  constexpr std::size_t kLength = 8;
  Prefixes mass;
  double unigram = 0;
  each_path(kLength, 2, [&](const Ids& path) {
    add_sequence(mass, path, path_probability(path, 2));
    unigram += path_probability(path, 2) * unigram_nats(path, 2) / double(kLength - 1);
  });
  REQUIRE(mass.at({}) == Approx(1).epsilon(1e-12));
  double expected = 0;
  for (const auto& [path, probability] : mass)
    if (path.size() == kLength)
      expected += probability * (bayes_nats(mass, path) - std::log(2.0)) / double(kLength - 1);
  const auto task = make_markov({.context = Index(kLength) - 1});
  REQUIRE(task->info().optimal == Approx(expected).epsilon(1e-12));
  REQUIRE(task->info().references.at("unigram rule") == Approx(unigram).epsilon(1e-12));
}

TEST_CASE("markov: each sequence has its Bayes loss, for any number of symbols",
          "[tasks][markov]") {
  for (const Index k : {2, 3, 5}) {
    const auto task = make_markov({.symbols = k, .context = 12});
    Generator g(61);
    const Batch batch = task->sample(3000, g);
    const auto rows = rows_of(batch);
    std::map<std::string, int> first;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Ids path = {rows[i].inputs[0]};
      path.insert(path.end(), rows[i].targets.begin(), rows[i].targets.end());
      ++first[std::to_string(path[0])];
      const double nats = -std::log(path_probability(path, std::size_t(k))) - std::log(double(k));
      REQUIRE(batch.optimal[i] == Approx(nats / 12).epsilon(1e-10));
      REQUIRE(batch.references.at("unigram rule")[i] ==
              Approx(unigram_nats(path, std::size_t(k)) / 12).epsilon(1e-10));
      REQUIRE(batch.references.at("uniform")[i] == std::log(double(k)));
    }
    REQUIRE(chi_square(first, std::size_t(k), 3000) < chi_square_limit(std::size_t(k)));
  }
}

TEST_CASE("markov: the optimum of three symbols is not known; errors", "[tasks][markov]") {
  REQUIRE(std::isnan(make_markov({.symbols = 3})->info().optimal));
  REQUIRE_THROWS_AS(make_markov({.symbols = 1}), ValueError);
  REQUIRE_THROWS_AS(make_markov({.context = 0}), ValueError);
}

}  // namespace
