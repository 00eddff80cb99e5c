// Ablation: the change of L when the output of heads is replaced. A gradient only estimates it.
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

/// The effect of an intervention: the change of L, summarized over sequences. Units are those of L.
struct Effect {
  double mean;             ///< mean change over the sequences
  double standard_error;   ///< of the mean; NaN for one sequence
  double mean_absolute;    ///< mean magnitude of the change
  std::int64_t sequences;  ///< number of sequences
};
/// Summarizes the changes of L, one for each sequence. Throws ValueError if there are none.
Effect effect_of(const std::vector<double>& changes);

/// Replacement for a head's output z (blocks.L.attn.hook_z), before the output projection. Means
/// and outputs of other sequences are those of the model without any replacement.
enum class Ablation {
  kZero,      ///< zeros
  kMean,      ///< mean of z over the batch's sequences and positions, padding included
  kResample,  ///< z of the next sequence at the same position; the last sequence uses the first
};
/// Names of the kinds of ablation in configurations.
template <>
struct EnumNames<Ablation> {
  /// The kinds and their names.
  static constexpr std::pair<Ablation, const char*> kTable[] = {
      {Ablation::kZero, "zero"}, {Ablation::kMean, "mean"}, {Ablation::kResample, "resample"}};
};

/// Returns the change of L of each sequence, [B], when the outputs of all `heads` are replaced at
/// once. The batch has sequences [B, T]. Throws ValueError if `heads` is empty, if the model does
/// not have one of them, or for kResample with one sequence.
std::vector<double> ablation_changes(const Transformer& model, const Batch& batch,
                                     const Objective& objective,
                                     const std::vector<HeadIndex>& heads, Ablation how);
/// Returns the summary of ablation_changes(), with the same errors.
Effect ablate(const Transformer& model, const Batch& batch, const Objective& objective,
              const std::vector<HeadIndex>& heads, Ablation how);
/// Ablates each head of the model alone. Returns the effects in the order of all_heads(). Throws
/// ValueError for kResample with one sequence.
std::vector<Effect> ablate_each(const Transformer& model, const Batch& batch,
                                const Objective& objective, Ablation how);

}  // namespace heed::nn
