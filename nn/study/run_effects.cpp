#include "nn/study/run_effects.h"

#include <algorithm>
#include <cmath>

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

std::optional<Effect> gain_over_frequencies(const LoadedRun& run, std::int64_t count) {
  count = std::min(
      {count, run.task->evaluation_size(), 8 * evaluation_chunk(run.model, run.task->info())});
  const auto gains = gains_over_frequencies(run.model, run.task->evaluation(0, count));
  return gains.empty() ? std::nullopt : std::optional(effect_of(gains));
}

bool predicts_better(const std::optional<Effect>& gain) {
  return !gain || (gain->mean >= 0.01 && !(gain->mean < 2 * gain->standard_error));
}

}  // namespace heed::nn
