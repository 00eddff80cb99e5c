// Exact split of a gradient: dL/d(residual stream) before a block is a sum of vectors, one for each
// path by which the gradient passes through that block.
#pragma once

#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/study.h"

namespace heed::nn {

/// The routes of the gradient through one block. Their names are:
///   residual  past attention and MLP,
///   mlp       through the MLP, then past attention,
///   L1H0.Q    through the queries of a head,
///   L1H0.K    through the keys of a head,
///   L1H0.V    through the values of a head.
/// Heads that share keys and values share these two routes: L1H0-1.K.
struct Routes {
  std::int64_t layer;              ///< from 0
  std::vector<std::string> parts;  ///< names of the P routes
  Tensor total;                    ///< [B, T, d_model], dL/d hook_resid_pre
  Tensor vectors;  ///< [P, B, T, d_model], one vector for each route; sum is `total`
  /// [B, H, Tq, Tk]: the gradient that goes from the head's output at the query to the key's token
  /// through the head's keys and values, as a component along `total` at that token. Its sum over
  /// queries (and over heads that share keys and values) equals that of the routes K and V.
  Tensor from;

  /// Returns [P, B, T], float64: route . total / total . total. The shares of a token sum to 1.
  /// They are NaN where the gradient is 0.
  Tensor shares() const;
};

/// Effect of one head's output through one route of a later block.
struct RouteEdge {
  std::int64_t layer;  ///< layer of the head that writes the output
  std::int64_t head;   ///< the head that writes the output
  std::string to;      ///< the route that reads it: "L1H0.K"
  double value;        ///< sum over tokens of output . route, mean over sequences; unit of L
};

/// The result of routes().
struct RouteStudy {
  std::vector<Routes> blocks;  ///< by layer
  /// Edges from every head to the heads of later blocks. Empty for NormPlacement::kPost, because a
  /// head's output is then normalized before it is part of the stream.
  std::vector<RouteEdge> edges;
};

/// Splits the gradients of a study of this model, block by block. No forward pass of the model is
/// needed. The gradient at a sequence is that of its own L.
RouteStudy routes(const Transformer& model, const Study& study);

}  // namespace heed::nn
