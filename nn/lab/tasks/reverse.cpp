// The tasks `reverse` and `copy`. The question determines the answer, so the optimal loss is 0.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/lab/tasks/answer_task.h"
#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

TaskInfo make_info(const ReverseOptions& o) {
  const std::string name = o.copy ? "copy" : "reverse";
  const std::string n = std::to_string(o.context / 2);
  check_options(name, o, 2);
  check<ValueError>(o.context % 2 == 0, name, "context ", o.context,
                    " is odd: needs an even one, half for the tokens and half for the answer");
  return {.name = name,
          .description = n + " random tokens, a |, then " +
                         (o.copy ? "the same again" : "the same in reverse order"),
          .accuracy = "answer tokens right",
          .prompt = n + " tokens; the | after them is added",
          .vocabulary = Vocabulary::letters(o.vocabulary, "|"),
          .classes = o.vocabulary,
          .context = o.context,
          .optimal = 0,
          .optimum = "0: the question determines the answer",
          .source = "no paper: a basic test of a single attention head"};
}

class Reverse : public AnswerTask {
 public:
  explicit Reverse(const ReverseOptions& options)
      : AnswerTask(make_info(options), options.context / 2, options.vocabulary),
        options_(options) {}

 private:
  Sequence draw(Generator& g) const override {
    return with_answer(random_question(options_.vocabulary, g));
  }

  std::vector<Index> answer(std::vector<Index> question) const override {
    if (!options_.copy) std::ranges::reverse(question);
    return question;
  }

  ReverseOptions options_;
};

}  // namespace

std::unique_ptr<Task> make_reverse(const ReverseOptions& options) {
  return std::make_unique<Reverse>(options);
}

}  // namespace heed::lab
