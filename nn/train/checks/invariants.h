// Checks of identities between attention's arrays and their gradients, during a training step
// (RunConfig::check_invariants). The identities hold for all weights and options. L is the loss. A
// are the attention weights, D the weights after dropout, S the masked scores, v the values, and
// O = D v the outputs. For one head, a query i and a key j:
//   A_ij = dL/dS_ij = 0                     exactly, if query i may not attend to key j
//   sum_j dL/dS_ij = 0                      because softmax ignores a constant added to a row
//   sum_j A_ij dL/dA_ij = dL/dO_i . O_i     (Dao et al. 2022, appendix B.2)
//   dL/dv_j = sum_i D_ij dL/dO_i            summed over all heads that share v
// An attention sink changes only the second identity. The weight of the sink is not recorded, so
// row i of A sums to a_i < 1, and row i of dL/dS sums to (1 - a_i) dL/dO_i . O_i. This sum is minus
// the gradient of the sink's score. No other option changes an identity.
//
// Because of rounding, the two sides of an identity may differ by n eps sum |terms|, where eps is
// the machine epsilon of the dtype. A term of either side is dL/dO_ic D_ij v_jc for column c of v,
// or D_ij dL/dO_ic in the identity of dL/dv. n is the number of roundings that may affect a term:
//   - one for each key in the sums of the softmax, forward and backward,
//   - one for each query of each head that shares v,
//   - one for each column of v,
//   - 4 max_j |S_ij|, because exp turns an error eps |S_ij| of S_ij into a relative error of A_ij,
//   - 16 for all other operations.
// For underflow, the sides may also differ by n times the smallest normal number, multiplied by 1 +
// the largest |dL/dA| or |dL/dO|. A side that is NaN fails.
#pragma once

#include <map>
#include <string>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// Arrays of one attention layer in a forward and backward pass, by the names of a Probe: S, A, O
/// and v (hook_attn_scores, hook_pattern, hook_z, hook_v) and their gradients, and with dropout
/// also D (hook_pattern_dropped).
using AttentionArrays = std::map<std::string, Tensor>;

/// Returns a text about the first identity that does not hold, with layer, head, row and both
/// values, such as "L0H1, query 3 of sequence 2: the sum of dL/dS over keys is 0.1, needs 0 within
/// 1e-06". Returns "" if all hold. `layer` is the number of the layer, which must be causal.
std::string broken_invariant(const AttentionArrays& x, std::int64_t layer,
                             const MultiHeadAttention::Options& o);

/// Makes `probe` record, in the next forward and backward pass, the arrays that broken_invariant()
/// reads. Each layer has 4 arrays of shape [B, H, T, T], or 6 with dropout, and smaller ones.
void record_invariants(Probe& probe, const Transformer& model);
/// Returns the text about the first identity that does not hold in the recorded pass, or "" if all
/// hold.
std::string broken_invariant(const Probe& probe, const Transformer& model);

}  // namespace heed::nn
