// Ablation measures the change of the objective L when the outputs of components (heads, MLPs, the
// embedding) are replaced. A gradient only estimates this change.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/io/setting.h"
#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"
#include "nn/study/forward_passes.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// The effect of an intervention: the change of the objective L, summarized over sequences. All
/// numbers except `sequences` and `accuracy` have the unit of L.
struct Effect {
  double mean = 0;             ///< mean change over the sequences
  double standard_error = 0;   ///< standard error of `mean`; NaN for one sequence
  std::int64_t sequences = 0;  ///< number of sequences
  /// accuracy() with the intervention, 0 to 1; NaN if it was not measured or no position counts
  double accuracy = NAN;
  std::vector<double> changes = {};  ///< by sequence, if effect_of() has made the effect
};
/// Summarizes `changes`, which has the change of L of each sequence. Throws ValueError if `changes`
/// is empty.
Effect effect_of(const std::vector<double>& changes);

/// The value that replaces the output of a component. The output of a head is z, before the
/// output projection. Means and outputs of other sequences come from a run of the model without
/// any replacement.
enum class Ablation {
  kMean,      ///< mean over all sequences and positions that hold a token (no padding)
  kZero,      ///< zeros
  kResample,  ///< output on the next sequence (last sequence: on the first) at the same position
};
/// Names of the kinds of ablation in configurations.
template <>
inline constexpr auto kEnumNames<Ablation> = std::to_array({"mean", "zero", "resample"});

/// Replacements for the outputs of all components of a model.
struct Replacement {
  Ablation how;             ///< the kind of replacement
  std::int64_t sequences;   ///< number of sequences from which the replacements were computed
  std::vector<Tensor> z;    ///< by layer; each broadcasts to z [B, T, H, d_value]
  std::vector<Tensor> mlp;  ///< by layer, each broadcasts to [B, T, d_model]; empty without MLPs
  Tensor embed;             ///< broadcasts to the stream before the first block [B, T, d_model]

  /// Returns the replacements of the sequences [first, first + count).
  Replacement rows(std::int64_t first, std::int64_t count) const;
};
/// Runs the model on sequences [B, T] and returns the replacements of this kind. Those of kMean and
/// kZero can be used for any batch, those of kResample only for this one. Throws ValueError if
/// `how` is kResample and the batch has one sequence.
Replacement replacement(const Transformer& model, const Batch& batch, Ablation how);

/// Returns L of each sequence, [B], if the outputs of all components in `cut` are replaced at once.
/// `cut` may be empty. Sets *accuracy to accuracy(), unless it is null. Throws ValueError if `cut`
/// contains a component that the model does not have.
std::vector<double> values_without(const BaseRun& run, const std::vector<Component>& cut,
                                   const Replacement& replaced, double* accuracy = nullptr);
/// Returns the change of L, and the accuracy, if the outputs of all components in `cut` are
/// replaced at once. Throws ValueError if `cut` is empty, and the errors of values_without().
Effect ablate(const BaseRun& run, const std::vector<Component>& cut, const Replacement& replaced);

/// Returns the heads as components.
std::vector<Component> components(const std::vector<HeadIndex>& heads);
/// Returns the heads of the model that are not in `kept`. If `kept` contains an MLP, also returns
/// the MLPs that are not in `kept`.
std::vector<Component> other_components(const Transformer& model,
                                        const std::vector<Component>& kept);

}  // namespace heed::nn
