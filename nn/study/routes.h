// Exact split of a gradient by routes. dL/d(residual stream) before a block is a sum of vectors,
// one for each route by which the gradient passes backward through the block. L is the objective.
#pragma once

#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/study.h"

namespace heed::nn {

/// The routes of the gradient backward through one block. Their names are:
///   residual  only the residual stream, past the attention and the MLP,
///   mlp       through the MLP, then past the attention,
///   L1H0.Q    through the queries of a head: which tokens this token searches for,
///   L1H0.K    through the keys of a head: how other tokens find this token,
///   L1H0.V    through the values of a head: what other tokens read from this token.
/// Heads that share keys and values have one route K and one route V together, such as L1H0-1.K.
struct Routes {
  std::int64_t layer;              ///< index of the block, from 0
  std::vector<std::string> parts;  ///< names of the P routes through the block
  Tensor total;                    ///< [B, T, d_model], dL/d(hook_resid_pre)
  Tensor vectors;                  ///< [P, B, T, d_model], by route; the sum over P is `total`
  /// [B, H, Tq, Tk]: the gradient that goes from the head's output at the query, through the head's
  /// keys and values, to the key's token. It is given as the component along `total` at this token.
  /// Summed over queries, and over the heads that share keys and values, it equals the component
  /// along `total` of the vectors of the routes K and V together.
  Tensor from;

  /// Returns [P, B, T], float64: (vector of the route . total) / (total . total). The shares of a
  /// token sum to 1. They are NaN if `total` is 0 at the token.
  Tensor shares() const;
};

/// Splits the gradients of a study of this model: returns the routes through block `layer`, from 0.
/// Runs only this block. The gradients of a sequence are those of this sequence's L, not of the
/// mean over the batch.
Routes routes(const Transformer& model, const Study& study, std::int64_t layer);

}  // namespace heed::nn
