// A task of your own, trained with heed's loop: nothing in heed has to change.
//
// Five random digits, a bar, the same digits sorted: 31415|11345. Four of the ten targets are
// random digits, at ln 10 nats each; the rest is certain. So the best possible loss is known.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "nn/train/generate.h"
#include "nn/train/trainer.h"

using namespace heed::autograd;
using namespace heed::nn;

namespace {

constexpr std::int64_t kDigits = 5, kBar = 10;

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
  // Targets are the inputs moved by one; the sorted digits are what counts for the accuracy.
  Sequence draw(Generator& g) const override {
    std::vector<std::int64_t> digits(kDigits);
    g.randint(digits, 0, 10);
    std::vector<std::int64_t> all = digits;
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
  // The default is two layers of two heads, as in heed train; nn/train/config.h lists everything.
  RunConfig config;
  config.model.context = 2 * kDigits, config.model.mlp = true;
  config.batch = 64, config.steps = 500, config.schedule = Decay::kCosine;
  Trainer trainer(config, std::make_unique<Sorting>());

  std::printf("step    loss   best possible   sorted right\n");
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
           [&](const GeneratedToken& token) {
             return std::printf("%s", spelling.label(token.id).c_str()) > 0;
           });
  std::printf(
      "\n\nNotice: the loss stops at the best possible one, though not at 0: what is left is the\n"
      "digits that nobody can know. A loss below it would mean that the model sees its targets.\n");
  return e.loss - *e.optimal <= 0.02 && !leaks(e) && *e.accuracy >= 0.99 ? 0 : 1;
}
