// Effects of edges: what happens to L if one receiver reads the stream with the output of one
// component replaced by that on a donor. The receiver has its own copy of the norm, and everything
// after it is computed again (path patching, Goldowsky-Dill et al. 2023, arXiv 2304.05969).
#pragma once

#include <vector>

#include "nn/lab/study/ablation.h"
#include "nn/lab/study/edges.h"

namespace heed::lab {

/// Measures edges of one model on the sequences of a run.
class EdgeEffects {
 public:
  /// Throws ValueError for NormPlacement::kPost.
  EdgeEffects(const BaseRun& run, const Donors& donors);

  /// Returns the effect of all edges together. A receiver reads the stream of this pass, which
  /// contains the changes by the receivers before it. So all edges out of a component together have
  /// the effect of its ablation, and so have all edges into the queries, keys and values of a head
  /// (of a group that shares keys and values). Throws ValueError without an edge, and NumericError
  /// if the effect is not finite.
  Effect effect(const std::vector<Edge>& edges) const;
  /// Estimates the floating-point operations of effect({edge}).
  double work(const Edge& edge) const;

 private:
  BaseRun run_;
  std::vector<Replacement> replaced_;
  std::vector<HeadWeights> weights_;             // by layer
  std::vector<Tensor> z_, resid_mid_, mlp_out_;  // by layer; the last two are empty without MLPs
  friend class EdgePass;
};

}  // namespace heed::lab
