// Checks of identities between attention's arrays and their gradients, during a training step
// (RunConfig::check_invariants). The identities hold for all weights and options. A are the
// attention weights, D the weights after dropout, S the masked scores, and O = D v. For one head
// and a query i:
//   A_ij = dL/dS_ij = 0                     exactly, if i may not attend to key j
//   sum_j dL/dS_ij = 0                      because softmax ignores a constant added to a row
//   sum_j A_ij dL/dA_ij = dL/dO_i . O_i     (Dao et al. 2022, appendix B.2)
//   dL/dv_j = sum_i D_ij dL/dO_i            summed over all heads that share v
// With a sink, whose weight is not recorded, row i of A sums to a_i < 1. Row i of dL/dS then sums
// to (1 - a_i) dL/dO_i . O_i, which is minus the gradient of the sink's score. No other option
// changes an identity.
//
// Two sides may differ by n eps sum |terms|. A term of either side is dL/dO_ic D_ij v_jc, or
// D_ij dL/dO_ic for dL/dv. n is the number of roundings that may affect a term: one for each key in
// the softmax's sum, forward and backward; one for each query of each head that shares v; one for
// each column of v; 16 for all other operations; and 4 max_j |S_ij|, because exp turns a relative
// error of S into an absolute one. eps is that of the dtype. For underflow, n times the smallest
// normal number is allowed in addition. NaN fails.
#pragma once

#include <string>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// Arrays of one attention layer in a forward and backward pass, as a Probe records them.
struct AttentionArrays {
  Tensor scores;        ///< S, masked scores, of shape [B, H, T, T]
  Tensor scores_grad;   ///< dL/dS, of shape [B, H, T, T]
  Tensor pattern;       ///< A, attention weights, of shape [B, H, T, T]
  Tensor pattern_grad;  ///< dL/dA, of shape [B, H, T, T]
  Tensor dropped;       ///< D, weights after dropout, of shape [B, H, T, T]
  Tensor z;             ///< O, outputs of the heads, of shape [B, T, H, d_value]
  Tensor z_grad;        ///< dL/dO, of shape [B, T, H, d_value]
  Tensor v;             ///< values, of shape [B, T, Hkv, d_value]
  Tensor v_grad;        ///< dL/dv, of shape [B, T, Hkv, d_value]
};

/// Options of a causal layer on which the identities depend.
struct AttentionRules {
  std::int64_t layer = 0;   ///< number of the layer, for messages
  std::int64_t window = 0;  ///< last keys that a query may attend to, its own included; 0: all
  bool sink = false;        ///< whether the layer has an attention sink
};

/// Returns the first identity that does not hold, with layer, head, row and both values: "L0H1,
/// query 3 of sequence 2: the sum of dL/dS over keys is 0.1, needs 0 within 1e-06". Returns "" if
/// all hold.
std::string broken_invariant(const AttentionArrays& x, const AttentionRules& rules);

/// Makes `probe` record everything that broken_invariant() reads, in the next pass. In each layer
/// these include 4 arrays of shape [B, H, T, T], or 6 with dropout.
void record_invariants(Probe& probe, const Transformer& model);
/// Returns the first identity that is broken in a recorded forward and backward pass, or "".
std::string broken_invariant(const Probe& probe, const Transformer& model);

}  // namespace heed::nn
