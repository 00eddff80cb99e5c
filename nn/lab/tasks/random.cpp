// The task `random`: independent tokens that cannot be predicted. If a model has a lower loss than
// uniform guessing, its targets have leaked into its inputs.
#include <cmath>

#include "nn/lab/tasks/parameters.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

TaskInfo make_random_info(const RandomOptions& o) {
  check_options("random", o);
  return {.name = "random",
          .description = "independent uniform tokens: a loss below ln V reveals a leak of targets",
          .accuracy = "tokens right",
          .prompt = "the start of a sequence; the leading ^ is added",
          .vocabulary = Vocabulary::letters(o.vocabulary, "^"),
          .classes = o.vocabulary,
          .context = o.context,
          .bos = o.vocabulary,
          .random_targets = true,
          .optimal = std::log(double(o.vocabulary)),
          .optimum = "ln V: all tokens are equally likely, whatever the tokens before",
          .source = "the definition of entropy"};
}

class Random : public Task {
 public:
  explicit Random(const RandomOptions& o) : Task(make_random_info(o)) {}

 private:
  Sequence draw(Generator& g) const override {
    const auto n = std::size_t(info().context);
    Sequence s;
    s.targets.resize(n);
    g.randint(s.targets, 0, info().classes);
    s.inputs = {*info().bos};
    s.inputs.insert(s.inputs.end(), s.targets.begin(), s.targets.end() - 1);
    s.counted.assign(n, true);
    s.position_optimal.assign(n, info().optimal);
    return s;
  }
};

}  // namespace

std::unique_ptr<Task> make_random(const RandomOptions& options) {
  return std::make_unique<Random>(options);
}

}  // namespace heed::lab
