// The sequences of the default study of a run, and whether anything can be concluded from them.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/run/run_folder.h"
#include "nn/study/ablation.h"

namespace heed::nn {

/// Returns the number of sequences of a study: 32, or more until 4,096 positions count in the
/// accuracy, at most 512. With fewer positions, the components that count depend on the sequences.
std::int64_t default_samples(const Task& task);
/// Returns the effect_of() gains_over_frequencies(): the log probability of the targets minus that
/// of their frequencies, on the first `count` sequences, or on as many as fit into memory. Returns
/// no value if no target counts.
std::optional<Effect> gain_over_frequencies(const LoadedRun& run, std::int64_t count);
/// Returns whether a model with this gain predicts better than token frequencies: by at least 0.01
/// nats and two standard errors. Returns true if `gain` has no value. If the model does not predict
/// better, no effect counts: replacements change L by chance.
bool predicts_better(const std::optional<Effect>& gain);

}  // namespace heed::nn
