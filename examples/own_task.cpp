// Defines a task and trains a model on it with heed's training loop. No file of heed has to change.
//
// A sequence is five random digits, a bar and the same digits sorted: 31415|11345. Four of the ten
// targets are random digits. The loss of each is at least ln 10 nats on average. The other targets
// can be predicted exactly. Therefore the optimal loss is known.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "nn/lab/train/generate.h"
#include "nn/lab/train/trainer.h"

using namespace heed::autograd;
using namespace heed::lab;

namespace {

constexpr Index kDigits = 5, kBar = 10;

class Sorting : public Task {
 public:
  Sorting()
      : Task({.name = "sorting",
              .description = "five digits, a |, then the digits sorted",
              .accuracy = "sorted digits right",
              .prompt = "five digits and a |",
              .vocabulary = Vocabulary::of("0123456789|"),
              .classes = 11,
              .context = 2 * kDigits,
              .optimal = (kDigits - 1) * std::log(10.0) / (2 * kDigits)}) {}

 private:
  // Draws one sequence. The targets are the inputs shifted by one position. The accuracy is
  // measured on the sorted digits only.
  Sequence draw(Generator& g) const override {
    std::vector<Index> digits(kDigits);
    g.randint(digits, 0, 10);
    std::vector<Index> all = digits;
    all.push_back(kBar);
    std::sort(digits.begin(), digits.end());
    all.insert(all.end(), digits.begin(), digits.end());
    Sequence s;
    s.inputs.assign(all.begin(), all.end() - 1);
    s.targets.assign(all.begin() + 1, all.end());
    s.counted.assign(kDigits, false);
    s.counted.resize(2 * kDigits, true);
    s.optimal = info().optimal;
    return s;
  }
};

}  // namespace

int main() {
  // The default model has two layers of two heads, as in heed train.
  // All options are in nn/lab/train/config.h.
  RunConfig config;
  config.model.context = 2 * kDigits, config.model.mlp = true;
  config.batch = 64, config.steps = 500, config.schedule = Decay::kCosine;
  Trainer trainer(config, std::make_unique<Sorting>());

  std::printf("step    loss    optimal loss   sorted right\n");
  Evaluation e;
  while (trainer.steps_done < config.steps) {
    trainer.step();
    if (trainer.steps_done % 100 != 0) continue;
    e = trainer.evaluate(true);
    std::printf("%4ld  %.4f          %.4f        %5.1f %%\n", long(trainer.steps_done), e.loss,
                *e.optimal, 100 * *e.accuracy);
  }

  const std::string question = "27182|";
  const Vocabulary& spelling = trainer.task->info().vocabulary;
  std::printf("\n%s", question.c_str());
  generate(trainer.model, spelling.encode(question), kDigits, {.greedy = true}, default_generator(),
           [&](Index id) { return std::printf("%s", spelling.label(id).c_str()) > 0; });
  std::printf(
      "\n\nNotice: the loss reaches the optimal loss, which is not 0, because the random digits\n"
      "cannot be predicted. A lower loss would mean that the model has access to its targets.\n");
  return e.loss - *e.optimal <= 0.02 && !leaks(e) && *e.accuracy >= 0.99 ? 0 : 1;
}
