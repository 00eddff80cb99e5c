// The tasks `parity` and `majority` of random bits. Models fail to learn `parity`: weights of a
// one-layer model that solve the task exist, but training does not find them with the default
// length and number of steps.
#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "nn/tasks/answer_task.h"
#include "nn/tasks/parameters.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kEnd = 2;  // the token `|` after the bits

TaskInfo make_bits_info(const BitsOptions& o) {
  const std::string name = o.majority ? "majority" : "parity";
  check_options(name, o, 2);
  const std::int64_t n = o.context - 1;
  check<ValueError>(!o.majority || n % 2 == 1, name, "context ", o.context, " has room for ", n,
                    " bits, an even number, so there may be no majority: needs an even context");
  const std::string bits = std::to_string(n) + " random bits, a |, then ";
  return {.name = name,
          .description = bits + (o.majority ? "1 if most of them are 1, else 0"
                                            : "1 if an odd number of them are 1, else 0"),
          .accuracy = "answers right",
          .prompt = std::to_string(n) + " bits; the | after them is added",
          .vocabulary = Vocabulary::of("01|"),
          .classes = 2,
          .context = o.context,
          .whole_answers = true,
          .optimal = 0,
          .references = {{"guessing", std::log(2.0)}},
          .optimum = "0: the question determines the answer",
          .source = o.majority ? "HazyResearch/zoology@d88d6f54, zoology/data/circuits.py"
                               : "Hahn 2020; Chiang and Cholak 2022; zoology/data/circuits.py"};
}

class Bits : public AnswerTask {
 public:
  explicit Bits(const BitsOptions& o)
      : AnswerTask(make_bits_info(o), o.context - 1, kEnd), majority_(o.majority) {}

 private:
  Sequence draw(Generator& g) const override {
    Sequence s = with_answer(random_question(2, g));
    s.references = {{"guessing", std::log(2.0)}};
    return s;
  }

  std::vector<std::int64_t> answer(std::vector<std::int64_t> question) const override {
    const auto ones = std::ranges::count(question, 1);
    return {majority_ ? 2 * ones > question_length() : ones % 2};
  }

  bool majority_;
};

}  // namespace

std::unique_ptr<Task> make_bits(const BitsOptions& options) {
  return std::make_unique<Bits>(options);
}

}  // namespace heed::nn
