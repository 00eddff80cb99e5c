// The task `modadd`: addition modulo p. A model trains on a part of the table of p^2 sums and is
// evaluated on the rest. The task tests whether the model generalizes from the training part. The
// two numbers determine their sum, so the optimal loss is 0.
#include <cmath>
#include <numeric>

#include "autograd/base/error.h"
#include "nn/lab/tasks/answer_task.h"
#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr Index kContext = 3;

// Returns a vocabulary of one character for each number (0-9 a-z A-Z, then Greek and Cyrillic small
// letters), followed by '='.
Vocabulary numbers(Index modulus) {
  std::vector<std::string> symbols;
  const Vocabulary all = Vocabulary::of(
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
      "αβγδεζηθικλμνξοπρςστυφχψωабвгдежзийклмнопрстуфхцчшщъыьэюя");
  symbols.assign(all.symbols().begin(), all.symbols().begin() + modulus);
  symbols.emplace_back("=");
  return Vocabulary(symbols);
}

TaskInfo make_modadd_info(const ModaddOptions& o) {
  check_options("modadd", o);
  check<ValueError>(o.context == kContext, "modadd", "a sequence has ", kContext,
                    " tokens (a, b, =), not ", o.context, "; omit context");
  const auto p = double(o.modulus);
  std::map<std::string, double> memory = {{"chance", 1 / p}};
  if (o.split == "ordered") memory["sums and their mirrors known"] = o.train_share * (p - 1) / p;
  return {.name = "modadd",
          .description =
              "(a + b) mod " + std::to_string(o.modulus) + ": learn the table from a part of it",
          .accuracy = "held-out sums right",
          .prompt = "two numbers, one character each, such as 3k; the = after them is added",
          .vocabulary = numbers(o.modulus),
          .classes = o.modulus,
          .context = kContext,
          .optimal = 0,
          .references = {{"uniform", std::log(p)}},
          .accuracy_references = memory,
          .optimum =
              "0: the numbers determine the sum; memorizing the training fraction f and using "
              "a + b = b + a gets f (p-1)/p of the held-out sums right",
          .source = "Power et al. 2022, arXiv 2201.02177; Nanda et al. 2023, arXiv 2301.05217",
          .corruptions = {"a", "b"}};
}

class Modadd : public AnswerTask {
 public:
  explicit Modadd(const ModaddOptions& options)
      : AnswerTask(make_modadd_info(options), 2, options.modulus), options_(options) {
    divide();
    check<ValueError>(
        !train_.empty() && !test_.empty(), "modadd", "a train share of ", options.train_share,
        " of ", options.modulus * options.modulus, " sums leaves no sums to ",
        train_.empty() ? "train on; choose a larger share" : "evaluate; choose a smaller share");
  }

  Index training_size() const override { return std::ssize(train_); }
  Index evaluation_size() const override { return std::ssize(test_); }
  bool holds_out() const override { return true; }

 private:
  // A sum of the held-out part, and the sum with another first or second number.
  PromptPair draw_pair(const std::string& corruption, Generator& g) const override {
    const auto [a, b] = test_[std::size_t(draw_below(evaluation_size(), g))];
    const Index change = 1 + draw_below(options_.modulus - 1, g);
    PromptPair pair{{a, b, options_.modulus}, {}, answer({a, b})[0], answer({a, b + change})[0]};
    pair.corrupt = pair.clean;
    Index& changed = pair.corrupt[corruption == "a" ? 0 : 1];
    changed = (changed + change) % options_.modulus;
    return pair;
  }

  using Pair = std::pair<Index, Index>;

  // Splits the n sums at random: the first int(train_share * n) in a random order are for training.
  // If the split is "unordered", a + b and b + a count as one sum and are in the same part.
  void divide() {
    const bool ordered = options_.split == "ordered";
    std::vector<Pair> all;
    for (Index a = 0; a < options_.modulus; ++a)
      for (Index b = ordered ? 0 : a; b < options_.modulus; ++b) all.emplace_back(a, b);
    std::vector<Index> order(all.size());
    Generator g(options_.split_seed);
    g.randperm(order);
    const auto train = std::size_t(options_.train_share * double(all.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::vector<Pair>& side = i < train ? train_ : test_;
      const auto [a, b] = all[std::size_t(order[i])];
      side.emplace_back(a, b);
      if (!ordered && a != b) side.emplace_back(b, a);
    }
  }

  Sequence sum(const Pair& pair) const {
    Sequence s = with_answer({pair.first, pair.second});
    s.references = info().references;
    return s;
  }

  std::vector<Index> answer(std::vector<Index> question) const override {
    return {(question[0] + question[1]) % options_.modulus};
  }

  Sequence draw(Generator& g) const override {
    return sum(train_[std::size_t(draw_below(training_size(), g))]);
  }

  // Returns distinct sums. If the training part is not larger than `batch`, returns the whole
  // training part in a fixed order.
  std::vector<Sequence> draw_batch(Index batch, Generator& g) const override {
    std::vector<Index> order(train_.size());
    std::iota(order.begin(), order.end(), 0);
    if (batch < training_size()) {
      g.randperm(order);
      order.resize(std::size_t(batch));
    }
    std::vector<Sequence> sequences;
    for (const Index i : order) sequences.push_back(sum(train_[std::size_t(i)]));
    return sequences;
  }

  std::optional<Sequence> held_out(Index number) const override {
    return sum(test_[std::size_t(number)]);
  }

  // A prompt is always the whole question, so its last target is the answer.
  void mark_prompt(Sequence& s) const override { s = with_answer({s.inputs[0], s.inputs[1]}); }

  ModaddOptions options_;
  std::vector<Pair> train_, test_;
};

}  // namespace

std::unique_ptr<Task> make_modadd(const ModaddOptions& options) {
  return std::make_unique<Modadd>(options);
}

}  // namespace heed::lab
