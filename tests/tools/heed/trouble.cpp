// heed train on a task that states too high an optimum, on a model that sees the future, one with a
// weight that is cut off, and one whose layer sees beyond its window: proof that each ends the run.
// Usage: heed_trouble WHICH FOLDER
#include <filesystem>
#include <string_view>

#include "nn/tasks/tasks.h"
#include "tools/heed/heed.h"
#include "tools/heed/report/output.h"
#include "tools/heed/train/train_run.h"

namespace {

using namespace heed;

// Says that 5 nats are the best possible where a model of uniform guesses has fewer.
class Boastful final : public nn::Task {
 public:
  Boastful(std::unique_ptr<nn::Task> honest) : Task(honest->info()), honest_(std::move(honest)) {}

 private:
  nn::Sequence draw(nn::Generator& g) const override {
    const nn::Batch batch = honest_->sample(1, g);
    nn::Sequence s{batch.inputs.to_vector<std::int64_t>(), batch.targets.to_vector<std::int64_t>(),
                   batch.counted.to_vector<bool>()};
    s.optimal = 5;
    return s;
  }
  std::unique_ptr<nn::Task> honest_;
};

int train(std::string_view which, const char* folder) {
  nn::RunConfig config = nn::preset("reverse");
  config.model.attention.d_model = 16, config.model.attention.heads = 2, config.model.context = 8,
  config.batch = 8;
  config.eval_batch = 16, config.steps = 4, config.eval_every = 2;
  if (which == "invariants") config.model.attention.window = 3, config.check_invariants = 2;
  std::unique_ptr<nn::Task> task = nn::make_task(config);
  if (which == "task") task = std::make_unique<Boastful>(std::move(task));
  nn::Trainer t(config, std::move(task));
  if (which == "invariants") t.model.blocks[0].attn.options.window = 0;
  if (which == "model") t.model.blocks[0].attn.options.causal = false;
  nn::Tensor& weight = t.model.head->weight;
  if (which == "severed" || which == "strict") weight = weight.detach();
  std::filesystem::create_directories(folder);
  TrainOptions options;
  options.strict = which == "strict";
  return train_run(t, nn::RunFolder(folder), options).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return kUsage;
  return exit_code_of([&] { return train(argv[1], argv[2]); });
}
