// The task `adder`: addition of two numbers (Karpathy's minGPT, projects/adder). The sum begins
// with its last digit, because the carry into a digit comes from the digit after it. So the model
// has already generated the digits that determine the carry.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/tasks/answer_task.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kMostDigits = 8;  // of one number; 10^16 problems fit in int64

std::int64_t power_of_ten(std::int64_t n) {
  std::int64_t power = 1;
  for (std::int64_t i = 0; i < n; ++i) power *= 10;
  return power;
}

TaskInfo make_adder_info(const AdderOptions& o) {
  const std::int64_t n = o.context / 3;
  check<ValueError>(o.context % 3 == 0 && n >= 1 && n <= kMostDigits, "adder", "context ",
                    o.context, ": needs 3 n for numbers of n digits, such as 6 for two digits, up ",
                    "to ", 3 * kMostDigits);
  const std::string digits = std::to_string(n);
  return {.name = "adder",
          .description = "two numbers of " + digits +
                         " digits, then the digits of their sum from the last to the first",
          .accuracy = "whole answers right",
          .prompt = "two numbers of " + digits + " digits" +
                    (n == 2 ? ", such as 8550 for 85 + 50 = 135: 531 follows" : ""),
          .vocabulary = Vocabulary::of("0123456789"),
          .classes = 10,
          .context = o.context,
          .whole_answers = true,
          .optimal = 0,
          .optimum = "0: the question determines the answer",
          .source = "karpathy/minGPT@37baab71, projects/adder/adder.py"};
}

// Returns 10^n, which is how many numbers of n digits there are.
std::int64_t adder_base(const AdderOptions& o) { return power_of_ten(o.context / 3); }

class Adder : public NumberedTask {
 public:
  Adder(TaskInfo info, const AdderOptions& o)
      : NumberedTask(std::move(info), o.context / 3 * 2, adder_base(o) * adder_base(o),
                     std::min<std::int64_t>(500, adder_base(o) * adder_base(o) / 5)),
        base_(adder_base(o)) {}

 private:
  // Returns the last `count` digits of a number, in the order from the last digit to the first.
  static std::vector<std::int64_t> digits_of(std::int64_t number, std::int64_t count) {
    std::vector<std::int64_t> digits;
    for (std::int64_t i = 0; i < count; ++i, number /= 10) digits.push_back(number % 10);
    return digits;
  }

  // The question a + b has the number a * base_ + b. Returns the digits of a, then those of b.
  std::vector<std::int64_t> question(std::int64_t number) const override {
    std::vector<std::int64_t> digits = digits_of(number, question_length());
    std::ranges::reverse(digits);
    return digits;
  }

  std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const override {
    std::int64_t number = 0;
    for (const std::int64_t digit : question) number = 10 * number + digit;
    return digits_of(number / base_ + number % base_, question_length() / 2 + 1);
  }

  std::int64_t base_;
};

}  // namespace

std::unique_ptr<Task> make_adder(const AdderOptions& options) {
  TaskInfo info = make_adder_info(options);  // first, because this call checks the options
  return std::make_unique<Adder>(std::move(info), options);
}

}  // namespace heed::nn
