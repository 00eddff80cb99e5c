// Ablation measures the change of the objective L when the outputs of heads are replaced. A
// gradient only estimates this change.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/io/setting.h"
#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// The effect of an intervention: the change of the objective L, summarized over sequences. All
/// numbers except `sequences` have the unit of L.
struct Effect {
  double mean;             ///< mean change over the sequences
  double standard_error;   ///< standard error of `mean`; NaN for one sequence
  double mean_absolute;    ///< mean magnitude of the change
  std::int64_t sequences;  ///< number of sequences
};
/// Summarizes `changes`, which has the change of L of each sequence. Throws ValueError if `changes`
/// is empty.
Effect effect_of(const std::vector<double>& changes);

/// The value that replaces a head's output z, before the output projection. The site of z is
/// "blocks.N.attn.hook_z" for block N. Means and outputs of other sequences come from a run of the
/// model without any replacement.
enum class Ablation {
  kZero,      ///< zeros
  kMean,      ///< mean of z over all sequences and positions of the batch, including padding
  kResample,  ///< z of the next sequence at the same position; the last sequence uses the first
};
/// Names of the kinds of ablation in configurations.
template <>
struct EnumNames<Ablation> {
  /// The kinds and their names.
  static constexpr std::pair<Ablation, const char*> kTable[] = {
      {Ablation::kZero, "zero"}, {Ablation::kMean, "mean"}, {Ablation::kResample, "resample"}};
};

/// Returns the change of L of each sequence, [B], if the outputs of all `heads` are replaced at
/// once. The batch has sequences [B, T]. Throws ValueError if `heads` is empty or has a head that
/// is not in the model, or if `how` is kResample and the batch has one sequence.
std::vector<double> ablation_changes(const Transformer& model, const Batch& batch,
                                     const Objective& objective,
                                     const std::vector<HeadIndex>& heads, Ablation how);
/// Returns effect_of() the result of ablation_changes(). Throws the errors of ablation_changes().
Effect ablate(const Transformer& model, const Batch& batch, const Objective& objective,
              const std::vector<HeadIndex>& heads, Ablation how);
/// Ablates each head of the model, one head at a time. Returns the effects in the order of
/// all_heads(). Throws ValueError if `how` is kResample and the batch has one sequence.
std::vector<Effect> ablate_each(const Transformer& model, const Batch& batch,
                                const Objective& objective, Ablation how);

}  // namespace heed::nn
