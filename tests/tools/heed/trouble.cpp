// A program that trains like `heed train`, but with one deliberate fault. A test checks that
// training detects the fault. Usage: heed_trouble FAULT DIRECTORY. The faults are:
// - task: the task states an optimal loss that is too high;
// - model: attention is not causal;
// - severed: a weight receives no gradient;
// - strict: a weight receives no gradient, and the option --strict is set.
// Any other name, for example "none", trains without a fault.
#include <string_view>

#include "nn/lab/tasks/tasks.h"
#include "tools/heed/heed.h"
#include "tools/heed/report/output.h"
#include "tools/heed/train/train_run.h"

namespace {

using namespace heed;

// A task that states a wrong optimal loss: 5 nats, which is more than the loss of uniform guesses.
class WrongOptimum final : public lab::Task {
 public:
  WrongOptimum(std::unique_ptr<lab::Task> task) : Task(task->info()), task_(std::move(task)) {}

 private:
  lab::Sequence draw(nn::Generator& g) const override {
    const lab::Batch batch = task_->sample(1, g);
    lab::Sequence s{batch.inputs.to_vector<std::int64_t>(), batch.targets.to_vector<std::int64_t>(),
                    batch.counted.to_vector<bool>()};
    s.optimal = 5;
    return s;
  }
  std::unique_ptr<lab::Task> task_;
};

int train(std::string_view fault, const char* folder) {
  lab::RunConfig config = lab::preset("reverse");
  config.model.attention.d_model = 16, config.model.attention.heads = 2, config.model.context = 8,
  config.batch = 8;
  config.eval_batch = 16, config.steps = 4, config.eval_every = 2;
  std::unique_ptr<lab::Task> task = lab::make_task(config);
  if (fault == "task") task = std::make_unique<WrongOptimum>(std::move(task));
  lab::Trainer t(config, std::move(task));
  if (fault == "model") t.model.blocks[0].attn.options.causal = false;
  nn::Tensor& weight = t.model.head->weight;
  if (fault == "severed" || fault == "strict") weight = weight.detach();
  TrainOptions options;
  options.strict = fault == "strict";
  return train_run(t, lab::LockedFolder(folder), options).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return kUsage;
  return exit_code_of([&] { return train(argv[1], argv[2]); });
}
