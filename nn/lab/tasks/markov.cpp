// The task `markov`: Markov chains with unknown transition probabilities. Each row of the
// transition matrix is uniform on the simplex. Sequences are drawn with one Polya urn for each
// current symbol: each drawn ball is put back together with another ball of its color. This gives
// the sequences the distribution that the random matrix defines (de Finetti). The optimal predictor
// counts the transitions so far and adds one to each count.
#include <cmath>
#include <limits>

#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr Index kLongestExact = 256;  // tokens; time grows with the third power of this

struct MarkovLosses {
  double bayes = std::numeric_limits<double>::quiet_NaN();
  double unigram = std::numeric_limits<double>::quiet_NaN();
};

// Returns the expected losses for two symbols, by a sum over all states. The chain starts at symbol
// 0. The state after t steps consists of the current symbol c, the number n0 of transitions from 0,
// and the number n00 of transitions 0 -> 0. The state determines all other counts, because
// transitions 0 -> 1 and 1 -> 0 alternate: there is one more 0 -> 1 if c is 1, else as many.
MarkovLosses expected_losses(Index context) {
  const auto T = std::size_t(context), side = T + 1;
  const auto at = [&](std::size_t n0, std::size_t n00) { return n0 * side + n00; };
  std::vector<double> now[2] = {std::vector<double>(side * side), std::vector<double>(side * side)};
  now[0][0] = 1;
  MarkovLosses total{0, 0};
  for (std::size_t t = 0; t < T; ++t) {
    std::vector<double> next[2] = {std::vector<double>(side * side),
                                   std::vector<double>(side * side)};
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t n0 = 0; n0 <= t; ++n0)
        for (std::size_t n00 = 0; n00 <= n0; ++n00) {
          const double probability = now[c][at(n0, n00)];
          if (probability == 0) continue;
          const std::size_t n01 = n0 - n00, n10 = n01 - c, n11 = t - n0 - n10;
          const double row[2] = {double(c == 0 ? n00 : n10), double(c == 0 ? n01 : n11)};
          const double seen[2] = {double(1 + n00 + n10), double(n01 + n11)};
          for (std::size_t j = 0; j < 2; ++j) {
            const double q = (row[j] + 1) / (row[0] + row[1] + 2);
            total.bayes -= probability * q * std::log(q);
            total.unigram -= probability * q * std::log((seen[j] + 1) / double(t + 3));
            next[j][at(n0 + (c == 0), n00 + (c == 0 && j == 0))] += probability * q;
          }
        }
    for (const std::size_t c : {0u, 1u}) now[c].swap(next[c]);
  }
  return {total.bayes / double(T), total.unigram / double(T)};
}

TaskInfo make_markov_info(const MarkovOptions& o) {
  check_options("markov", o);
  MarkovLosses expected;
  std::map<std::string, double> references = {{"uniform", std::log(double(o.symbols))}};
  if (o.symbols == 2 && o.context <= kLongestExact) {
    expected = expected_losses(o.context);
    references["unigram rule"] = expected.unigram;
  }
  return {.name = "markov",
          .description = "a Markov chain with unknown probabilities: count the transitions",
          .accuracy = "tokens right",
          .prompt = "the start of a sequence, such as aababba",
          .vocabulary = Vocabulary::letters(o.symbols, ""),
          .classes = o.symbols,
          .context = o.context,
          .random_targets = true,
          .optimal = expected.bayes,
          .references = references,
          .optimum =
              "mean of E[-ln (n_ij + 1) / (n_i + k)] over the steps from i to j, by a sum "
              "over all counts for k = 2 and T <= 256; otherwise it is known only for each "
              "sequence",
          .source = "Edelman et al. 2024, arXiv 2402.11004, started uniformly"};
}

class Markov : public Task {
 public:
  explicit Markov(const MarkovOptions& options)
      : Task(make_markov_info(options)), options_(options) {}

 private:
  Sequence draw(Generator& g) const override {
    const auto k = std::size_t(options_.symbols);
    std::vector<std::vector<Index>> balls(k, std::vector<Index>(k, 1));
    std::vector<Index> all(k, Index(k)), seen(k, 1);
    Sequence s;
    double unigram = 0;
    auto current = std::size_t(draw_below(options_.symbols, g));
    for (Index t = 0; t < options_.context; ++t) {
      ++seen[current];
      std::vector<Index>& row = balls[current];
      Index drawn = draw_below(all[current], g);
      std::size_t next = 0;
      while (drawn >= row[next]) drawn -= row[next++];
      s.position_optimal.push_back(-std::log(double(row[next]) / double(all[current])));
      unigram -= std::log(double(seen[next]) / double(t + 1 + Index(k)));
      ++row[next], ++all[current];
      s.inputs.push_back(Index(current));
      s.targets.push_back(Index(next));
      s.counted.push_back(true);
      current = next;
    }
    s.references = {{"unigram rule", unigram / double(options_.context)},
                    {"uniform", std::log(double(k))}};
    return s;
  }

  MarkovOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_markov(const MarkovOptions& options) {
  return std::make_unique<Markov>(options);
}

}  // namespace heed::lab
