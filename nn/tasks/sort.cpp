// The task `sort`: sorting digits (Karpathy's minGPT, demo.ipynb). Each input has a number, which
// is its value in base SortOptions::digits. A quarter of these numbers is held out.
#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "nn/tasks/answer_task.h"
#include "nn/tasks/parameters.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr double kMostInputs = 1e6;

std::int64_t sort_length(const SortOptions& o) { return (o.context + 1) / 2; }

std::int64_t count_inputs(const SortOptions& o) {
  return std::int64_t(std::pow(double(o.digits), double(sort_length(o))));
}

TaskInfo make_sort_info(const SortOptions& o) {
  check_options("sort", o);
  check<ValueError>(o.context >= 3 && o.context % 2 == 1, "sort", "context ", o.context,
                    ": needs 2 n - 1 for n digits and their sorted answer, such as 11, and at "
                    "least 3");
  const std::int64_t n = sort_length(o);
  check<ValueError>(std::pow(double(o.digits), double(n)) <= kMostInputs, "sort", n, " of ",
                    o.digits, " digits have more than ", kMostInputs,
                    " inputs: reduce context or digits");
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
          .optimum = "0: the question determines the answer",
          .source = "karpathy/minGPT@37baab71, demo.ipynb",
          .corruptions = {"digit"}};
}

class Sort : public NumberedTask {
 public:
  Sort(TaskInfo info, const SortOptions& o)
      : NumberedTask(std::move(info), sort_length(o), count_inputs(o), count_inputs(o) / 4),
        digits_(o.digits) {}

 private:
  // Returns two questions that differ in one digit. The change gives another smallest digit, which
  // is the first token of the answer.
  PromptPair draw_pair(const std::string& /*corruption*/, Generator& g) const override {
    for (;;) {
      PromptPair pair{random_question(digits_, g), {}, 0, 0};
      pair.corrupt = pair.clean;
      pair.corrupt[std::size_t(draw_below(question_length(), g))] = draw_below(digits_, g);
      pair.right = answer(pair.clean)[0], pair.wrong = answer(pair.corrupt)[0];
      if (pair.right != pair.wrong) return pair;
    }
  }

  std::vector<std::int64_t> question(std::int64_t number) const override {
    std::vector<std::int64_t> digits;
    for (std::int64_t i = 0; i < question_length(); ++i, number /= digits_)
      digits.push_back(number % digits_);
    return digits;
  }

  std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const override {
    std::ranges::sort(question);
    return question;
  }

  std::int64_t digits_;
};

}  // namespace

std::unique_ptr<Task> make_sort(const SortOptions& options) {
  TaskInfo info = make_sort_info(options);  // first, because this call checks the options
  return std::make_unique<Sort>(std::move(info), options);
}

}  // namespace heed::nn
