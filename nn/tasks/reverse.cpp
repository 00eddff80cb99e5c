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
  const std::string n = std::to_string(o.length);
  const Vocabulary vocabulary = letters(o.vocabulary, name, 1, "|");
  check<ValueError>(o.length >= 1, name, "needs at least 1 token to ", name, ", got ", o.length);
  return {.name = name,
          .description = n + " random tokens, a |, then " +
                         (o.copy ? "the same again" : "the same in reverse order"),
          .accuracy = "answer tokens right",
          .prompt = n + " tokens; the | behind them is added",
          .vocabulary = vocabulary,
          .classes = o.vocabulary,
          .context = 2 * o.length,
          .optimal = 0};
}

class Reverse : public Task {
 public:
  explicit Reverse(const ReverseOptions& options) : Task(make_facts(options)), options_(options) {}

 private:
  Sequence draw(Generator& g) const override {
    const auto n = std::size_t(options_.length);
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
    s.optimal = 0;
    return s;
  }

  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override {
    std::vector<std::int64_t> ids = facts().vocabulary.encode(text);
    const auto question = std::find(ids.begin(), ids.end(), separator()) - ids.begin();
    check<ValueError>(question == options_.length, facts().name, "a prompt needs exactly ",
                      options_.length, " tokens before the |, got ", question);
    if (question == std::ssize(ids)) ids.push_back(separator());
    return ids;
  }

  void mark_prompt(Sequence& s) const override {
    std::fill_n(s.targets.begin(), options_.length, kIgnored);
    std::fill_n(s.counted.begin(), options_.length, false);
  }

  std::int64_t separator() const { return options_.vocabulary; }

  ReverseOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_reverse(const ReverseOptions& options) {
  return std::make_unique<Reverse>(options);
}

}  // namespace heed::nn
