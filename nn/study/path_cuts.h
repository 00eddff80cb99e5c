// Cuts of paths: what happens to L if one part of a model no longer reads the output of another
// part, measured and predicted by a gradient.
//
// If an edge is cut, its receiver alone reads the stream with the component's output replaced
// (Replacement), with its own copy of the norm. Everything after the receiver is computed again
// (path patching, Goldowsky-Dill et al. 2023, arXiv 2304.05969). On a path with several receivers,
// the output of each is computed with the change of the one before. Only the last receiver changes
// the run, and all else stays.
//
// The prediction is the first-order change along the path: (out' - out) . dL/d(out), with the
// gradient through this path alone (edge attribution patching, Syed et al. 2023, arXiv 2310.10348).
#pragma once

#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/marks.h"
#include "nn/study/paths.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// A set of paths that are cut at once, with the measured and the predicted change of L.
struct PathCut {
  std::vector<Path> paths;  ///< the paths
  Effect effect;            ///< L with the paths cut, minus L
  Effect predicted;         ///< the prediction of `effect`; a sum over the paths

  /// Returns the row of this cut for marks.h.
  EffectRow row() const { return {effect, predicted.mean}; }
};
/// Cuts paths of one model on the sequences of a run. If several paths are cut at once, a receiver
/// reads the stream of the running pass, with the changes of the receivers before.
class PathCutter {
 public:
  /// With `through_mlps`, the change of a component's output also changes the MLPs between it and
  /// the receiver (the definition of Wang et al. 2022, arXiv 2211.00593). Throws ValueError for
  /// NormPlacement::kPost. The run and the replacement must outlive the cutter.
  PathCutter(const BaseRun& run, const Replacement& replaced, bool through_mlps);

  /// Returns L of each sequence, [B], with all paths cut at once.
  std::vector<double> values(const std::vector<Path>& paths) const;
  /// Returns the prediction for each path alone. One backward pass gives the gradients of many
  /// paths, for as many sequences at a time as sequences_at_once() allows.
  std::vector<Effect> predictions(const std::vector<Path>& paths) const;
  /// Returns the measured and the predicted change with all paths cut at once. Throws NumericError
  /// if one of them is not finite.
  PathCut cut(const std::vector<Path>& paths) const;
  /// Measures the cuts of the `count` single paths with the largest magnitudes of the prediction.
  /// Returns them sorted by the magnitude of the effect. `progress` receives the steps done and
  /// their total.
  std::vector<PathCut> largest(const std::vector<Path>& paths, std::size_t count,
                               const ProgressCallback& progress = {}) const;

 private:
  std::vector<std::vector<double>> predicted_values(const std::vector<Path>& paths) const;
  std::vector<std::vector<double>> predict_group(const std::vector<Path>& paths,
                                                 const std::vector<Path>& distinct,
                                                 const std::vector<std::size_t>& gradient_of) const;
  const BaseRun& run_;
  const Replacement& replaced_;
  bool through_mlps_;
};

}  // namespace heed::nn
