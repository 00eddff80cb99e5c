// Repeated blocks of distinct tokens. The optimum is exact, because the period is always found out:
// a sequence's probability is 1/#periods * 1/V * 1/(V-1) * ... * 1/(V-P+1), and the mean surprise
// of the best predictor is -ln of that over T.
#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "nn/tasks/alphabet.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kExamplePeriod = 16;

double optimal_loss(const InductionOptions& o, std::int64_t period) {
  double nats = std::log(double(o.max_period - o.min_period + 1));
  for (std::int64_t i = 0; i < period; ++i) nats += std::log(double(o.vocabulary - i));
  return nats / double(o.context);
}

// Uniform over all tokens until one has come back, certain from then on: what an induction head
// alone achieves.
double copy_only_loss(const InductionOptions& o, std::int64_t period) {
  return double(period + 1) * std::log(double(o.vocabulary)) / double(o.context);
}

TaskFacts make_facts(const InductionOptions& o) {
  const Vocabulary vocabulary = letters(o.vocabulary, "induction", 2, "^");
  check<ValueError>(o.min_period >= 1 && o.min_period <= o.max_period, "induction", "periods ",
                    o.min_period, " to ", o.max_period, ": needs 1 <= min_period <= max_period");
  check<ValueError>(o.max_period <= o.vocabulary, "induction", "a block of ", o.max_period,
                    " different tokens needs a vocabulary of as many, got ", o.vocabulary);
  check<ValueError>(o.context >= o.max_period + 2, "induction", "context ", o.context,
                    " is too short for blocks of up to ", o.max_period, " tokens to repeat: needs ",
                    o.max_period + 2, " or more");
  double optimal = 0, copy_only = 0;
  for (std::int64_t p = o.min_period; p <= o.max_period; ++p) {
    optimal += optimal_loss(o, p);
    copy_only += copy_only_loss(o, p);
  }
  const auto periods = double(o.max_period - o.min_period + 1);
  return {.name = "induction",
          .description = "a random block of tokens, repeated: look up what followed last time",
          .accuracy = "repeat tokens right",
          .prompt = "the start of a sequence, such as abcdeabc; the ^ in front is added",
          .vocabulary = vocabulary,
          .classes = o.vocabulary,
          .context = o.context,
          .bos = o.vocabulary,
          .optimal = optimal / periods,
          .references = {{"copy-only", copy_only / periods}}};
}

class Induction : public Task {
 public:
  explicit Induction(const InductionOptions& options)
      : Task(make_facts(options)), options_(options) {}

 private:
  Sequence draw(Generator& g) const override {
    std::int64_t period = 0;
    g.randint({&period, 1}, options_.min_period, options_.max_period + 1);
    return repeat_block(period, g);
  }

  Sequence draw_example(Generator& g) const override {
    return repeat_block(std::clamp(kExamplePeriod, options_.min_period, options_.max_period), g);
  }

  Sequence repeat_block(std::int64_t period, Generator& g) const {
    std::vector<std::int64_t> block(std::size_t(options_.vocabulary));
    g.randperm(block);  // its first `period` tokens
    Sequence s;
    for (std::int64_t t = 0; t < options_.context; ++t) {
      s.inputs.push_back(t == 0 ? *facts().bos : s.targets.back());
      s.targets.push_back(block[std::size_t(t % period)]);
      s.counted.push_back(t > period);
    }
    s.optimal = optimal_loss(options_, period);
    s.references = {{"copy-only", copy_only_loss(options_, period)}};
    return s;
  }

  // Counts what comes after the first token has come back, as in a drawn sequence.
  void mark_prompt(Sequence& s) const override {
    const auto wrap = std::find(s.targets.begin() + 1, s.targets.end(), s.targets[0]);
    const auto first = std::min(wrap - s.targets.begin() + 1, std::ptrdiff_t(s.counted.size()));
    std::fill(s.counted.begin(), s.counted.begin() + first, false);
  }

  InductionOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_induction(const InductionOptions& options) {
  return std::make_unique<Induction>(options);
}

}  // namespace heed::nn
