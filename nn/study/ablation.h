// What the model loses without a head: the cause that a gradient can only estimate.
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

/// Of something done to the model, the change of L over sequences.
struct Effect {
  double mean;
  double standard_error;  ///< of the mean; NaN for one sequence
  double mean_absolute;
  std::int64_t sequences;
};
/// Of the change in each sequence. ValueError for none.
Effect effect_of(const std::vector<double>& changes);

/// What takes the place of a head's output z (blocks.L.attn.hook_z), before the output projection.
enum class Ablation {
  kZero,
  kMean,      ///< its mean over the batch's sequences and positions, padding included
  kResample,  ///< the same position's of the next sequence of the batch, the last one's the first's
};
template <>
struct EnumNames<Ablation> {
  static constexpr std::pair<Ablation, const char*> kTable[] = {
      {Ablation::kZero, "zero"}, {Ablation::kMean, "mean"}, {Ablation::kResample, "resample"}};
};

/// L without all of `heads` at once minus L, [B] of a batch [B, T]. What stands in is of the whole
/// model's pass. ValueError for no head, one the model has not, or kResample of one sequence.
std::vector<double> ablation_changes(const Transformer& model, const Batch& batch,
                                     const Objective& objective,
                                     const std::vector<HeadIndex>& heads, Ablation how);
Effect ablate(const Transformer& model, const Batch& batch, const Objective& objective,
              const std::vector<HeadIndex>& heads, Ablation how);
/// The same of every head alone, in the order of all_heads.
std::vector<Effect> ablate_each(const Transformer& model, const Batch& batch,
                                const Objective& objective, Ablation how);

}  // namespace heed::nn
