// Reversing and copying. Everything in the answer is determined, so the optimal loss is 0.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/tasks/alphabet.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

TaskFacts make_facts(const ReverseOptions& o) {
  const std::string name = o.copy ? "copy" : "reverse";
  const std::string n = std::to_string(o.context / 2);
  const Vocabulary vocabulary = letters(o.vocabulary, name, 1, "|");
  check<ValueError>(o.context >= 2, name, "needs a context of at least 2, got ", o.context);
  check<ValueError>(o.context % 2 == 0, name, "context ", o.context,
                    " is odd: needs an even one, half for the tokens and half for the answer");
  return {.name = name,
          .description = n + " random tokens, a |, then " +
                         (o.copy ? "the same again" : "the same in reverse order"),
          .accuracy = "answer tokens right",
          .prompt = n + " tokens; the | behind them is added",
          .vocabulary = vocabulary,
          .classes = o.vocabulary,
          .context = o.context,
          .optimal = 0,
          .optimum = "0: the answer is determined",
          .source = "no paper: the first thing to ask of one head of attention"};
}

class Reverse : public Task {
 public:
  explicit Reverse(const ReverseOptions& options) : Task(make_facts(options)), options_(options) {}

 private:
  Sequence draw(Generator& g) const override {
    const auto n = std::size_t(length());
    std::vector<std::int64_t> question(n);
    g.randint(question, 0, options_.vocabulary);
    std::vector<std::int64_t> answer = question;
    if (!options_.copy) std::ranges::reverse(answer);
    Sequence s;
    s.inputs = question;
    s.inputs.push_back(separator());
    s.inputs.insert(s.inputs.end(), answer.begin(), answer.end() - 1);
    s.targets.assign(n, kIgnored);
    s.targets.insert(s.targets.end(), answer.begin(), answer.end());
    s.counted.assign(n, false);
    s.counted.resize(2 * n, true);
    s.position_optimal.assign(2 * n, 0.0);
    return s;
  }

  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override {
    std::vector<std::int64_t> ids = facts().vocabulary.encode(text);
    const auto question = std::find(ids.begin(), ids.end(), separator()) - ids.begin();
    check<ValueError>(question == length(), facts().name, "a prompt needs exactly ", length(),
                      " tokens before the |, got ", question);
    if (question == std::ssize(ids)) ids.push_back(separator());
    return ids;
  }

  void mark_prompt(Sequence& s) const override {
    std::fill_n(s.targets.begin(), length(), kIgnored);
    std::fill_n(s.counted.begin(), length(), false);
  }

  std::int64_t length() const { return options_.context / 2; }
  std::int64_t separator() const { return options_.vocabulary; }

  ReverseOptions options_;
};

}  // namespace

std::vector<Setting> ReverseOptions::parameters() {
  return {{"vocabulary", vocabulary, {1, 52}, "different tokens"}};
}

std::unique_ptr<Task> make_reverse(const ReverseOptions& options) {
  return std::make_unique<Reverse>(options);
}

}  // namespace heed::nn
