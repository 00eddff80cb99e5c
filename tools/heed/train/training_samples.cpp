#include "tools/heed/train/training_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "nn/train/generate.h"
#include "tools/plot/text.h"

namespace heed {

TrainingSamples::TrainingSamples(const nn::RunFolder& folder, nn::Trainer& trainer)
    : trainer_(trainer) {
  if (trainer.config().sample_every == 0) return;
  prompt_ = prompt_of(trainer);
  file_.emplace(folder, trainer, nn::RunFolder::kSamples, "", trainer.steps_done);
}

std::vector<std::int64_t> TrainingSamples::prompt_of(const nn::Trainer& t) {
  const nn::TaskInfo& info = t.task->info();
  const std::string& text = t.config().sample_prompt;
  if (!text.empty() || info.stop) return t.task->prompt(text).inputs.to_vector<std::int64_t>();
  if (info.endless) return {info.vocabulary.find("\n").value_or(0)};
  nn::Generator g(1);
  auto ids = t.task->example(g).inputs.to_vector<std::int64_t>();
  ids.resize((ids.size() + 1) / 2);
  return ids;
}

std::optional<std::string> TrainingSamples::after_step() {
  const nn::RunConfig& c = trainer_.config();
  const std::int64_t step = trainer_.steps_done;
  if (!file_ || step % c.sample_every != 0 || file_->has(step)) return {};
  const nn::TaskInfo& info = trainer_.task->info();
  const std::int64_t most = info.endless ? 100 : info.context + 1 - std::int64_t(prompt_.size());
  std::vector<std::int64_t> ids = prompt_;
  nn::Generator g = nn::sample_stream(c.seed, step);
  nn::generate(trainer_.model, prompt_, most, {}, g, [&](std::int64_t id) {
    ids.push_back(id);
    return id != info.stop;
  });
  const std::string line =
      fmt::format("{}: {}", step, plot::visible_text(info.vocabulary.decode(ids)));
  file_->write(step, line + "\n");
  return line;
}

}  // namespace heed
