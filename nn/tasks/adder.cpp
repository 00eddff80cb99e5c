// Adding two numbers: Karpathy's minGPT, projects/adder. The sum comes with its digits reversed, so
// that each can be known from what stands before it.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/tasks/answer_task.h"
#include "nn/tasks/held_out.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kMostDigits = 8;  // of a number; problems are counted in 64 bits

std::int64_t power_of_ten(std::int64_t n) {
  std::int64_t power = 1;
  for (std::int64_t i = 0; i < n; ++i) power *= 10;
  return power;
}

TaskFacts make_adder_facts(const AdderOptions& o) {
  const std::int64_t n = o.context / 3;
  check<ValueError>(o.context % 3 == 0 && n >= 1 && n <= kMostDigits, "adder", "context ",
                    o.context, ": numbers of n digits need 3 n, such as 6 for two digits, up to ",
                    3 * kMostDigits);
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
          .optimum = "0: the answer is determined",
          .source = "karpathy/minGPT@37baab71, projects/adder/adder.py"};
}

class Adder : public AnswerTask {
 public:
  explicit Adder(const AdderOptions& o)
      : AnswerTask(make_adder_facts(o), o.context / 3 * 2),
        base_(power_of_ten(o.context / 3)),
        held_out_(base_ * base_, std::min<std::int64_t>(500, base_ * base_ / 5)) {}

  std::int64_t evaluation_size() const override { return std::ssize(held_out_.list()); }

 private:
  Sequence draw(Generator& g) const override { return problem(held_out_.draw_other(g)); }

  std::vector<Sequence> draw_evaluation(std::int64_t first, std::int64_t count) const override {
    std::vector<Sequence> sequences;
    for (std::int64_t i = first; i < first + count; ++i)
      sequences.push_back(problem(held_out_.list()[std::size_t(i)]));
    return sequences;
  }

  // The digits of a number, the last first.
  static std::vector<std::int64_t> digits_of(std::int64_t number, std::int64_t count) {
    std::vector<std::int64_t> digits;
    for (std::int64_t i = 0; i < count; ++i, number /= 10) digits.push_back(number % 10);
    return digits;
  }

  // Number a * base + b stands for the digits of a and b.
  Sequence problem(std::int64_t number) const {
    std::vector<std::int64_t> question = digits_of(number, question_length());
    std::ranges::reverse(question);
    return with_answer(question);
  }

  std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const override {
    std::int64_t number = 0;
    for (const std::int64_t digit : question) number = 10 * number + digit;
    return digits_of(number / base_ + number % base_, question_length() / 2 + 1);
  }

  std::int64_t base_;  // one more than the largest number
  HeldOut held_out_;
};

}  // namespace

std::vector<Setting> AdderOptions::parameters() { return {}; }

std::unique_ptr<Task> make_adder(const AdderOptions& options) {
  return std::make_unique<Adder>(options);
}

}  // namespace heed::nn
