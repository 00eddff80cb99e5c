// The default study of a run: its heads and MLPs on sequences of its task, with the L of the task.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/run/run_folder.h"
#include "nn/study/roles.h"
#include "nn/tasks/repeat_random.h"

namespace heed::nn {

/// Returns the number of sequences of a study: 32, or more until 4,096 positions count in the
/// accuracy, at most 512. With fewer positions the marks of heads depend on the sequences.
std::int64_t default_samples(const Task& task);
/// Returns the default L: the margin or, if the targets are random, their log probability.
/// `positions` are those of L. If the list is empty, L has its default positions
/// (Objective::positions, margin()).
Objective default_objective(const Transformer& model, const TaskInfo& info, const Batch& batch,
                            const std::vector<std::int64_t>& positions = {});

/// Returns the effect_of() gains_over_frequencies(): the log probability of the targets minus that
/// of their frequencies, on the first `count` sequences, or on as many as fit into memory. Returns
/// no value if no target counts.
std::optional<Effect> gain_over_frequencies(const LoadedRun& run, std::int64_t count);
/// Returns whether a model with this gain predicts better than token frequencies: by at least 0.01
/// nats and two standard errors. Returns true if `gain` has no value. If the model does not predict
/// better, no effect counts: the rival of a margin has the largest other logit of the unchanged
/// model, which is large by chance in an untrained model. A replacement tends to lower this logit,
/// and so to raise the margin.
bool predicts_better(const std::optional<Effect>& gain);

/// Quantities that score_on_repeated_tokens() sets.
inline constexpr Quantity kCopyScores[] = {kPreviousToken, kDuplicateToken, kInduction,
                                           kDetectInduction};
inline constexpr std::int64_t kRepeatedSequences = 8;  ///< number of sequences of repeated tokens
inline constexpr std::int64_t kLeastRepeated = 8;      ///< least number of tokens that repeat
/// Measures the scores of previous-token, duplicate-token and induction heads of a model of texts
/// on repeated random tokens, because a text confounds them. Returns the number of tokens that
/// repeat. If it is below kLeastRepeated, the scores are NaN. For other tasks does nothing and
/// returns no value.
std::optional<std::int64_t> score_on_repeated_tokens(MeasuredHeads& heads, const LoadedRun& run,
                                                     std::uint64_t seed = 1);

}  // namespace heed::nn
