// Heads and MLPs on N sequences: their scores, and their effects on the objective L, measured by
// replacing their outputs and predicted for the same replacement by gradients.
#pragma once

#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/evidence.h"
#include "nn/study/head_scores.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

struct Study;

/// All heads and MLPs of a model on N sequences, with the measured and predicted effects of
/// replacing their outputs (Replacement). An effect is L with the replaced output minus L of the
/// unchanged model, so a head that helps has a negative effect on a margin.
struct MeasuredHeads {
  Effect value;     ///< L of the unchanged model
  Effect no_heads;  ///< L without any head, minus L; the MLPs remain
  /// Means over the sequences, in the order of all_heads(): the quantities of study(), and kNeeded,
  /// kSuffices, kPredicted, kSoftmaxExact and kIntegrated, which `effects` also contains.
  std::vector<HeadReport> reports = {};
  /// The cuts of all heads, then of the MLPs by layer. The first prediction is "gradient". With
  /// EffectParts::kAll, heads also have "softmax exact" and "integrated (activation)".
  std::vector<Evidence> effects = {};
  std::vector<Component> components;  ///< of `effects`
  /// By head: mean over the queries of their weight on the key d positions before, [T]. For a query
  /// without such a key, the weight counts as 0.
  std::vector<std::vector<double>> by_distance = {};
  /// By head: mean weight of a query on all keys that have this token, [vocab].
  std::vector<std::vector<double>> by_token = {};
  HeadReport uniform = {};  ///< Study::uniform, mean over the sequences
};

/// Parts of MeasuredHeads to compute.
enum class EffectParts {
  kMeasured,  ///< effects and their gradients: about two forward passes for each head
  kAll,       ///< also the other predictions: about 25 forward passes more for each head
};

/// Measures every head and MLP on the sequences of a run. `progress` receives the number of steps
/// done and their total. The arrays of `at_once` sequences are in memory at the same time; 0 means
/// sequences_at_once(). Throws NumericError if an effect is not finite.
MeasuredHeads measure_heads(const BaseRun& run, const Replacement& replaced, EffectParts parts,
                            const ProgressCallback& progress = {}, std::int64_t at_once = 0);

/// Returns the predicted change of L of each sequence, [B], if the output z of a head is replaced
/// by z': (z' - z) . dL/dz. `study` is that of the unchanged model on these sequences.
std::vector<double> gradient_prediction(const Study& study, const HeadIndex& head,
                                        const Replacement& replaced);

/// Measures the cuts of all pairs of heads. The place is "L0H0, L0H1". The prediction "sum" is the
/// sum of the mean kNeeded of the two heads. It has no standard error.
std::vector<Evidence> pair_effects(const BaseRun& run, const Replacement& replaced,
                                   const MeasuredHeads& measured);

}  // namespace heed::nn
