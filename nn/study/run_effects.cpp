#include "nn/study/run_effects.h"

#include <algorithm>
#include <cmath>

#include "nn/study/study.h"
#include "nn/train/evaluate.h"

namespace heed::nn {

using namespace autograd;

std::int64_t default_samples(const Task& task) {
  constexpr std::int64_t kLeast = 32, kMost = 512, kCounted = 4096;
  const Tensor counted = task.evaluation(0, std::min(kLeast, task.evaluation_size())).counted;
  const double by_sequence =
      std::max(1.0, sum(to(counted, float64)).item()) / double(counted.size(0));
  return std::clamp(std::int64_t(std::ceil(kCounted / by_sequence)), kLeast, kMost);
}

Objective default_objective(const Transformer& model, const TaskInfo& info, const Batch& batch,
                            const std::vector<std::int64_t>& positions) {
  if (info.random_targets) return {.kind = Objective::kLogLikelihood, .positions = positions};
  return margin(model, batch, positions);
}

std::optional<Effect> gain_over_frequencies(const LoadedRun& run, std::int64_t count) {
  count = std::min(
      {count, run.task->evaluation_size(), 8 * evaluation_chunk(run.model, run.task->info())});
  const auto gains = gains_over_frequencies(run.model, run.task->evaluation(0, count));
  return gains.empty() ? std::nullopt : std::optional(effect_of(gains));
}

bool predicts_better(const std::optional<Effect>& gain) {
  return !gain || (gain->mean >= 0.01 && !(gain->mean < 2 * gain->standard_error));
}

std::optional<std::int64_t> score_on_repeated_tokens(MeasuredHeads& heads, const LoadedRun& run,
                                                     std::uint64_t seed) {
  if (!run.task->info().random_targets || !predicts_its_inputs(*run.task)) return {};
  const std::int64_t tokens = repeated_tokens(run.task->info().context);
  if (tokens < kLeastRepeated) {
    for (HeadReport& h : heads.reports)
      for (const Quantity score : kCopyScores) h[score] = NAN;
    return tokens;
  }
  Generator generator(seed);
  const Batch batch = repeated_random(run.task->info(), tokens, kRepeatedSequences, generator);
  const Study scores = study(run.model, batch, {Objective::kLogLikelihood});
  for (const Quantity score : kCopyScores) {
    for (std::size_t i = 0; i < scores.heads.size(); ++i)
      heads.reports[i][score] = scores.heads[i][score];
    heads.uniform[score] = scores.uniform[score];
  }
  return tokens;
}

}  // namespace heed::nn
