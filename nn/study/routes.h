// Where a gradient comes from, exactly: dL/d(residual stream) before a block, split over the ways
// by which that block passed it on.
#pragma once

#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/study.h"

namespace heed::nn {

/// The routes of one block. With y the stream after it, h that between attention and MLP:
///   residual  past both,
///   mlp       through the MLP, then past attention,
///   L1H0.Q    through the queries of a head: what it looks for,
///   L1H0.K    through its keys: who looks at the token,
///   L1H0.V    through its values: what is read of it.
/// Heads that share keys and values share these routes: L1H0-1.K.
struct Routes {
  std::int64_t layer;
  std::vector<std::string> parts;
  Tensor total;    ///< [B, T, d_model], dL/d hook_resid_pre
  Tensor vectors;  ///< [P, B, T, d_model], of each part; their sum is `total`
  /// [B, H, Tq, Tk]: what the output at the query sends to the key's token by the head's keys and
  /// values, as a length along `total` there. Its sum over queries (and heads that share) is that
  /// of the parts K and V.
  Tensor from;

  /// [P, B, T]: part . total / total . total; the parts of a token add up to 1. NaN where nothing
  /// arrives.
  Tensor shares() const;
};

/// Of a part of a later block, and a head before it.
struct RouteEdge {
  std::int64_t layer, head;  ///< whose output
  std::string to;            ///< the part that reads it: "L1H0.K"
  double value;  ///< sum over tokens of the output . the part, mean over sequences: nats, or logits
};

struct RouteStudy {
  std::vector<Routes> blocks;
  /// Empty with norms after the sum: there a head's output is not added to the stream as it is.
  std::vector<RouteEdge> edges;
};

/// Splits the gradients of a study of this model, block by block, without another pass of the
/// model. A gradient is that of its own sequence's L.
RouteStudy routes(const Transformer& model, const Study& study);

}  // namespace heed::nn
