// Functions for tests of tasks: the sequences of a batch, the Bayes-optimal loss computed by
// enumeration of all sequences, and statistics of random draws.
#pragma once

#include "nn/lab/tasks/tasks.h"
#include "tests/support/catch.h"

namespace heed::lab::testing {

using Ids = std::vector<Index>;

/// One sequence of a batch.
struct Row {
  Ids inputs, targets;
  std::vector<bool> counted;
};

inline std::vector<Row> rows_of(const Batch& batch) {
  const Index T = batch.inputs.size(1);
  const auto cut = [&](const auto& all, Index i) {
    return std::vector(all.begin() + i * T, all.begin() + (i + 1) * T);
  };
  const auto x = batch.inputs.to_vector<std::int64_t>();
  const auto y = batch.targets.to_vector<std::int64_t>();
  const auto counted = batch.counted.to_vector<bool>();
  std::vector<Row> rows;
  for (Index i = 0; i < batch.inputs.size(0); ++i)
    rows.push_back({cut(x, i), cut(y, i), cut(counted, i)});
  return rows;
}

inline std::string text_of(const Task& task, const Ids& ids) {
  return task.info().vocabulary.decode(ids);
}

template <class F>
std::string error_of(F&& f) {
  return message_of<autograd::ValueError>(f);
}

/// Probability of each prefix of each sequence. The Bayes-optimal probability of a token is that of
/// the prefix that ends with the token, divided by the probability of the prefix before the token.
using Prefixes = std::map<Ids, double>;
/// Returns the negative log-likelihood, in nats, that the Bayes-optimal predictor assigns to a
/// sequence.
inline double bayes_nats(const Prefixes& mass, const Ids& sequence) {
  double nats = 0;
  Ids prefix;
  for (const Index token : sequence) {
    const double before = mass.at(prefix);
    prefix.push_back(token);
    nats -= std::log(mass.at(prefix) / before);
  }
  return nats;
}
/// Adds the probability of a sequence to all of its prefixes.
inline void add_sequence(Prefixes& mass, const Ids& sequence, double probability) {
  for (std::size_t n = 0; n <= sequence.size(); ++n)
    mass[Ids(sequence.begin(), sequence.begin() + std::ptrdiff_t(n))] += probability;
}

/// Returns the chi-square statistic of `draws` draws from `cells` equally probable cells. `seen`
/// counts the draws of each cell that was drawn.
inline double chi_square(const std::map<std::string, int>& seen, std::size_t cells, int draws) {
  const double expected = double(draws) / double(cells);
  double sum = double(cells - seen.size()) * expected;
  for (const auto& [cell, n] : seen) sum += (n - expected) * (n - expected) / expected;
  return sum;
}
/// Returns the value that the chi-square statistic of `cells` cells exceeds with a probability of
/// about 1e-4 (Wilson and Hilferty 1931).
inline double chi_square_limit(std::size_t cells) {
  const double d = double(cells - 1), c = 2 / (9 * d);
  return d * std::pow(1 - c + 3.72 * std::sqrt(c), 3);
}

inline double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
}
inline double standard_error(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += (v - mean(x)) * (v - mean(x));
  return std::sqrt(sum / double(x.size() - 1) / double(x.size()));
}

}  // namespace heed::lab::testing
