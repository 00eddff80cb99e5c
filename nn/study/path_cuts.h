// Cuts of paths: what happens to L if one part of a model no longer reads the output of another
// part, measured and predicted by a gradient.
//
// If an edge is cut, its receiver alone reads the stream with the component's output replaced
// (Replacement), with its own copy of the norm. Everything after the receiver is computed again
// (path patching, Goldowsky-Dill et al. 2023, arXiv 2304.05969). On a path with several receivers,
// the output of each receiver is computed with the change of the receiver before it. In the pass
// that computes L, only the last receiver reads a changed stream.
//
// The prediction is the first-order change along the path: (out' - out) . dL/d(out), with the
// gradient through this path alone (edge attribution patching, Syed et al. 2023, arXiv 2310.10348).
#pragma once

#include <memory>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/evidence.h"
#include "nn/study/paths.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Cuts paths of one model on the sequences of a run.
class PathCutter {
 public:
  /// With `through_mlps`, the change of a component's output also changes the MLPs between it and
  /// the receiver (the definition of Wang et al. 2022, arXiv 2211.00593). Throws ValueError for
  /// NormPlacement::kPost.
  PathCutter(const BaseRun& run, const Replacement& replaced, bool through_mlps);

  /// Returns L of each sequence, [B], with all paths cut at once. The last receiver of each path
  /// reads the stream of this pass, which contains the changes by the last receivers before it. The
  /// output of a head or MLP inside a path is computed with its own path cut alone.
  std::vector<double> values(const std::vector<Path>& paths) const;
  /// Returns the prediction for each path alone. One backward pass gives the gradients of many
  /// paths, for as many sequences at a time as sequences_at_once() allows. It is fastest if paths
  /// with the same receivers follow each other. Throws NumericError if a prediction is not finite.
  std::vector<Effect> predictions(const std::vector<Path>& paths) const;
  /// Returns the measured change with all paths cut at once, and its prediction "gradient", a sum
  /// over the paths. The place has the names of all paths, joined by ", ". Throws ValueError
  /// without a path, and NumericError if a change is not finite.
  Evidence cut(const std::vector<Path>& paths) const;
  /// Measures the cuts of the `count` single paths with the largest magnitudes of the prediction.
  /// Returns them sorted by the magnitude of the effect; a place is the path_name(). `progress`
  /// receives the steps done and their total. Throws NumericError if a change is not finite.
  std::vector<Evidence> largest(const std::vector<Path>& paths, std::size_t count,
                                const ProgressCallback& progress = {}) const;

 private:
  struct Base;
  class Pass;

  // Returns the predictions by path, then by sequence. Paths of one group have the same gradient.
  // group[i] is the group of paths[i], counted from 0. Pass explains `together`.
  std::vector<std::vector<double>> predict(const std::vector<Path>& paths,
                                           const std::vector<std::size_t>& group,
                                           bool together) const;
  Effect measured(const std::vector<Path>& paths) const;

  bool through_mlps_;
  std::shared_ptr<const Base> base_;
};

}  // namespace heed::nn
