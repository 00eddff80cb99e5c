// Cuts of edges: what happens to L if one part of a model no longer reads the output of another
// part, measured and predicted by a gradient.
//
// If an edge is cut, its receiver alone reads the stream with the component's output replaced
// (Replacement), with its own copy of the norm. Everything after the receiver is computed again
// (path patching, Goldowsky-Dill et al. 2023, arXiv 2304.05969).
//
// The prediction is the first-order change along the edge: (out' - out) . dL/d(out), with the
// gradient through this edge alone (edge attribution patching, Syed et al. 2023, arXiv 2310.10348).
#pragma once

#include <memory>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/edges.h"
#include "nn/study/evidence.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Cuts edges of one model on the sequences of a run.
class EdgeCutter {
 public:
  /// Throws ValueError for NormPlacement::kPost.
  EdgeCutter(const BaseRun& run, const Replacement& replaced);

  /// Returns L of each sequence, [B], with all edges cut at once. Each receiver reads the stream of
  /// this pass, which contains the changes by the receivers before it.
  std::vector<double> values(const std::vector<Edge>& edges) const;
  /// Returns the prediction for each edge alone. One backward pass gives the gradients of many
  /// edges, for as many sequences at a time as sequences_at_once() allows. It is fastest if edges
  /// with the same receiver follow each other. Throws NumericError if a prediction is not finite.
  std::vector<Effect> predictions(const std::vector<Edge>& edges) const;
  /// Returns the measured change with all edges cut at once, and its prediction "gradient", a sum
  /// over the edges. The place has the names of all edges, joined by ", ". Throws ValueError
  /// without an edge, and NumericError if a change is not finite.
  Evidence cut(const std::vector<Edge>& edges) const;
  /// Measures the cuts of the `count` single edges with the largest magnitudes of the prediction.
  /// Returns them sorted by the magnitude of the effect; a place is the edge_name(). `progress`
  /// receives the steps done and their total. Throws NumericError if a change is not finite.
  std::vector<Evidence> largest(const std::vector<Edge>& edges, std::size_t count,
                                const ProgressCallback& progress = {}) const;

 private:
  struct Base;
  class Pass;

  // Returns the predictions by edge, then by sequence. Edges of one group have the same receiver.
  // group[i] is the group of edges[i], counted from 0.
  std::vector<std::vector<double>> predict(const std::vector<Edge>& edges,
                                           const std::vector<std::size_t>& group) const;
  Effect measured(const std::vector<Edge>& edges) const;

  std::shared_ptr<const Base> base_;
};

}  // namespace heed::nn
