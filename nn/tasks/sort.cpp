// Sorting digits: Karpathy's minGPT, demo.ipynb. Every input is one number in base `digits`, so
// that a quarter of all can be held out.
#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "nn/tasks/answer_task.h"
#include "nn/tasks/held_out.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr double kMostInputs = 1e6;

std::int64_t sort_length(const SortOptions& o) { return (o.context + 1) / 2; }

std::int64_t count_inputs(const SortOptions& o) {
  return std::int64_t(std::pow(double(o.digits), double(sort_length(o))));
}

TaskFacts make_sort_facts(const SortOptions& o) {
  check<ValueError>(o.digits >= 2 && o.digits <= 10, "sort", "needs 2 to 10 digits, got ",
                    o.digits);
  check<ValueError>(o.context >= 3 && o.context % 2 == 1, "sort", "context ", o.context,
                    ": n tokens and the same sorted need 2 n - 1, such as 11");
  const std::int64_t n = sort_length(o);
  check<ValueError>(std::pow(double(o.digits), double(n)) <= kMostInputs, "sort", n, " of ",
                    o.digits, " digits have more than ", kMostInputs,
                    " inputs: lower context or digits");
  return {.name = "sort",
          .description = std::to_string(n) + " random digits, then the same in order",
          .accuracy = "whole answers right",
          .prompt = std::to_string(n) + " digits, such as " +
                    std::string("2101202010").substr(0, std::size_t(std::min<std::int64_t>(n, 10))),
          .vocabulary = Vocabulary::of(std::string("0123456789").substr(0, std::size_t(o.digits))),
          .classes = o.digits,
          .context = o.context,
          .whole_answers = true,
          .optimal = 0,
          .optimum = "0: the answer is determined",
          .source = "karpathy/minGPT@37baab71, demo.ipynb"};
}

class Sort : public AnswerTask {
 public:
  explicit Sort(const SortOptions& o)
      : AnswerTask(make_sort_facts(o), sort_length(o)),
        digits_(o.digits),
        held_out_(count_inputs(o), count_inputs(o) / 4) {}

  std::int64_t evaluation_size() const override { return std::ssize(held_out_.list()); }

 private:
  Sequence draw(Generator& g) const override { return input(held_out_.draw_other(g)); }

  std::vector<Sequence> draw_evaluation(std::int64_t first, std::int64_t count) const override {
    std::vector<Sequence> sequences;
    for (std::int64_t i = first; i < first + count; ++i)
      sequences.push_back(input(held_out_.list()[std::size_t(i)]));
    return sequences;
  }

  Sequence input(std::int64_t number) const {
    std::vector<std::int64_t> question;
    for (std::int64_t i = 0; i < question_length(); ++i, number /= digits_)
      question.push_back(number % digits_);
    return with_answer(question);
  }

  std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const override {
    std::ranges::sort(question);
    return question;
  }

  std::int64_t digits_;
  HeldOut held_out_;
};

}  // namespace

std::vector<Setting> SortOptions::parameters() {
  return {{"digits", digits, {2, 10}, "different digits"}};
}

std::unique_ptr<Task> make_sort(const SortOptions& options) {
  return std::make_unique<Sort>(options);
}

}  // namespace heed::nn
