// The task `induction`: repeated blocks of distinct tokens. The optimal loss is exact, because a
// sequence determines its period P. With V tokens, the probability of a sequence is 1/#periods *
// 1/V * 1/(V-1) * ... * 1/(V-P+1). The total loss of the optimal predictor is -ln of this
// probability.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/base/error.h"
#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr Index kExamplePeriod = 16;

// Returns the loss of the optimal predictor at each position t, in nats. Before the block repeats,
// the tokens show only that the period P is at least t. The predictor gives the first token of the
// block the probability that P = t. It divides the rest equally among the tokens that have not
// occurred.
std::vector<double> optimal_losses(const InductionOptions& o, Index period) {
  std::vector<double> nats(std::size_t(o.context), 0.0);
  for (Index t = 0; t <= period; ++t) {
    const bool may_wrap = t >= o.periods.first;
    const double wrap = may_wrap ? 1 / double(o.periods.last - t + 1) : 0;
    nats[std::size_t(t)] =
        t == period ? -std::log(wrap) : std::log(double(o.vocabulary - t)) - std::log1p(-wrap);
  }
  return nats;
}

// Returns the mean loss of a predictor that gives all tokens equal probabilities until a token has
// repeated. After that, it predicts each token with certainty. An induction head alone achieves
// this loss.
double copy_only_loss(const InductionOptions& o, Index period) {
  return double(period + 1) * std::log(double(o.vocabulary)) / double(o.context);
}

// Returns the length of the block in an example.
Index example_period(const InductionOptions& o) {
  return std::clamp(kExamplePeriod, o.periods.first, o.periods.last);
}
// Returns the length of the block in all pairs. At least one token of the vocabulary is not in the
// block, for the corruption "value".
Index pair_period(const InductionOptions& o) {
  return std::min(example_period(o), o.vocabulary - 1);
}

TaskInfo make_info(const InductionOptions& o) {
  check_options("induction", o);
  const auto [first, last] = o.periods;
  check<ValueError>(last <= o.vocabulary, "induction", "a block of ", last,
                    " different tokens needs a vocabulary of at least ", last, ", got ",
                    o.vocabulary);
  check<ValueError>(o.context >= last + 2, "induction", "context ", o.context,
                    " is too short for blocks of up to ", last, " tokens to repeat: needs ",
                    last + 2, " or more");
  double optimal = 0, copy_only = 0;
  for (Index p = first; p <= last; ++p) {
    const std::vector<double> nats = optimal_losses(o, p);
    optimal += std::accumulate(nats.begin(), nats.end(), 0.0) / double(o.context);
    copy_only += copy_only_loss(o, p);
  }
  const auto periods = double(last - first + 1);
  std::vector<std::string> corruptions;
  if (pair_period(o) >= 3) corruptions = {"value", "key", "query"};
  return {.name = "induction",
          .description = "a random block of tokens, repeated: copy from the previous repetition",
          .accuracy = "repeat tokens right",
          .prompt = "the start of a sequence, such as abcdabcd; the leading ^ is added",
          .vocabulary = Vocabulary::letters(o.vocabulary, "^"),
          .classes = o.vocabulary,
          .context = o.context,
          .bos = o.vocabulary,
          .optimal = optimal / periods,
          .references = {{"copy-only", copy_only / periods}},
          .optimum = "mean over P of [ln #periods + ln V + ln (V-1) + ... + ln (V-P+1)] / T",
          .source =
              "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits; Olsson "
              "et al. 2022, arXiv 2209.11895",
          .corruptions = corruptions};
}

class Induction : public Task {
 public:
  explicit Induction(const InductionOptions& options)
      : Task(make_info(options)), options_(options) {}

 private:
  // The clean prompt is a block and its first token again. The answer is the second token.
  // - value: the second token is replaced. The answer is its replacement.
  // - key: the first and the middle token are exchanged. The answer is the token after the middle.
  // - query: the last token of the prompt is the middle token. The answer is the token after it.
  PromptPair draw_pair(const std::string& corruption, Generator& g) const override {
    const auto period = std::size_t(pair_period(options_));
    std::vector<Index> tokens(std::size_t(options_.vocabulary));
    g.randperm(tokens);
    PromptPair pair;
    pair.clean = {*info().bos};
    pair.clean.insert(pair.clean.end(), tokens.begin(), tokens.begin() + std::ptrdiff_t(period));
    pair.clean.push_back(tokens[0]);
    pair.corrupt = pair.clean, pair.right = tokens[1];
    const std::size_t middle = std::max<std::size_t>(1, (period - 1) / 2);
    pair.wrong = corruption == "value" ? tokens[period] : tokens[middle + 1];
    if (corruption == "value") pair.corrupt[2] = pair.wrong;
    if (corruption == "key") std::swap(pair.corrupt[1], pair.corrupt[1 + middle]);
    if (corruption == "query") pair.corrupt.back() = tokens[middle];
    return pair;
  }

  Sequence draw(Generator& g) const override {
    const auto [first, last] = options_.periods;
    return repeat_block(first + draw_below(last - first + 1, g), g);
  }

  Sequence draw_example(Generator& g) const override {
    return repeat_block(example_period(options_), g);
  }

  Sequence repeat_block(Index period, Generator& g) const {
    std::vector<Index> block(std::size_t(options_.vocabulary));
    g.randperm(block);  // the block is the first `period` elements
    Sequence s;
    for (Index t = 0; t < options_.context; ++t) {
      s.inputs.push_back(t == 0 ? *info().bos : s.targets.back());
      s.targets.push_back(block[std::size_t(t % period)]);
      s.counted.push_back(t > period);
    }
    s.position_optimal = optimal_losses(options_, period);
    s.references = {{"copy-only", copy_only_loss(options_, period)}};
    return s;
  }

  // In a drawn sequence, the targets up to and including the first repetition of the first token do
  // not count. This function sets `counted` of a prompt by the same rule. If the prompt repeats its
  // block, the block determines the target of the last token.
  void mark_prompt(Sequence& s) const override {
    const auto first = s.targets.begin(), last = s.targets.end() - 1;
    const auto wrap = first == last ? last : std::find(first + 1, last, s.targets[0]);
    const auto uncounted = std::min(wrap - first + 1, std::ptrdiff_t(s.counted.size()));
    std::fill(s.counted.begin(), s.counted.begin() + uncounted, false);
    if (wrap >= last || !std::equal(wrap, last, first)) return;
    *last = last[first - wrap];
    s.counted.back() = true;
  }

  InductionOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_induction(const InductionOptions& options) {
  return std::make_unique<Induction>(options);
}

}  // namespace heed::lab
