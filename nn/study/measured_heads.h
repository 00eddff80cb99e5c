// Heads and MLPs on N sequences: their scores, and their effects on the objective L, measured by
// replacing their outputs and predicted for the same replacement by gradients.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/head_scores.h"
#include "nn/study/marks.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

struct Study;

/// One head on N sequences: its scores, and the measured and predicted effects of replacing its
/// output z by z' (Replacement). Effects are changes of L, so that a negative effect on a margin
/// means that the head helps.
struct MeasuredHead {
  HeadReport report;  ///< layer, head and scores, means over the sequences
  Effect needed;      ///< L without this head, minus L
  /// L without all heads of the layer, minus L without all of them but this one. It shows a head
  /// that other heads can replace, for which `needed` is small.
  Effect suffices;
  Effect gradient;  ///< prediction of `needed`: (z' - z) . dL/dz at the unchanged model
  /// `gradient`, with the softmax of later heads exact: plus the sum over later heads of
  /// (softmax(S + dS) - A - J dS) . dL/dA, where dS is the first-order change of the scores S and J
  /// is the Jacobian of the softmax. In the last layer it equals `gradient`. Compare the QK fix of
  /// AtP* (Kramar et al. 2024, arXiv 2403.00745).
  std::optional<Effect> softmax_exact;
  /// The mean of dL/dz at z + (k - 1/2)/5 (z' - z), k = 1 to 5, times z' - z (EAP-IG, Hanna et al.
  /// 2024, arXiv 2403.17806).
  std::optional<Effect> integrated;
  /// Mean over the queries of their weight on the key d positions before, [T]. A query without such
  /// a key has the weight 0 there.
  std::vector<double> by_distance;
  /// Mean weight of a query on all keys that have this token, [vocab].
  std::vector<double> by_token;

  /// Returns the row of this head for marks.h.
  EffectRow row() const { return {needed, gradient.mean, suffices}; }
};

/// One MLP on N sequences: the effects of replacing its output.
struct MeasuredMlp {
  Component mlp;    ///< the MLP
  Effect needed;    ///< L without this MLP, minus L
  Effect gradient;  ///< prediction of `needed` by dL/d(output)

  /// Returns the row of this MLP for marks.h.
  EffectRow row() const { return {needed, gradient.mean}; }
};

/// All heads and MLPs of a model on N sequences.
struct MeasuredHeads {
  Effect value;                     ///< L of the unchanged model
  Effect no_heads;                  ///< L without any head, minus L; the MLPs remain
  std::vector<MeasuredHead> heads;  ///< in the order of all_heads()
  std::vector<MeasuredMlp> mlps;    ///< by layer; empty for a model without MLPs
  HeadReport uniform;               ///< Study::uniform, mean over the sequences

  /// Returns the rows of all heads for marks.h.
  std::vector<EffectRow> rows() const;
};

/// A column of estimates of `needed`.
struct EffectEstimate {
  std::string_view name;                                     ///< "softmax exact"
  std::optional<Effect> (*value)(const MeasuredHead& head);  ///< the estimate, if it was computed
};
/// Returns the estimates `gradient`, `softmax exact` and `integrated`.
std::vector<EffectEstimate> effect_estimates();

/// Parts of MeasuredHead to compute.
enum class EffectParts {
  kMeasured,  ///< needed, suffices and gradient: about two forward passes for each head
  kAll,       ///< also the other estimates: about 25 forward passes more for each head
};

/// Measures every head and MLP on the sequences of a run. `progress` receives the number of steps
/// done and their total. The arrays of `at_once` sequences are in memory at the same time; 0 means
/// sequences_at_once(). Throws NumericError if an effect is not finite.
MeasuredHeads measure_heads(const BaseRun& run, const Replacement& replaced, EffectParts parts,
                            const ProgressCallback& progress = {}, std::int64_t at_once = 0);

/// Returns the predicted change of L of each sequence, [B], if the output z of a head is replaced:
/// (z' - z) . dL/dz. `study` is that of the unchanged model on these sequences.
std::vector<double> gradient_prediction(const Study& study, const HeadIndex& head,
                                        const Replacement& replaced);

/// Two heads that are replaced together.
struct PairEffect {
  HeadIndex a;    ///< the first head
  HeadIndex b;    ///< the second head
  Effect both;    ///< L without both, minus L
  double excess;  ///< both.mean - needed of a - needed of b; 0 if the effects add
};
/// Measures all pairs of heads.
std::vector<PairEffect> pair_effects(const BaseRun& run, const Replacement& replaced,
                                     const std::vector<MeasuredHead>& heads);

}  // namespace heed::nn
