// Identities between attention's arrays and their gradients, which hold whatever the weights and
// options are, checked on a pass that trains (RunConfig::check_invariants). With A the weights, D
// those after dropout, S the masked scores and O = D v, of one head and a query i:
//   A_ij = dL/dS_ij = 0                     where i may not see key j; exactly
//   sum_j dL/dS_ij = 0                      softmax does not see what a whole row gains
//   sum_j A_ij dL/dA_ij = dL/dO_i . O_i     (Dao et al. 2022, appendix B.2)
//   dL/dv_j = sum_i D_ij dL/dO_i            over all heads that share v
// Behind a sink, which is not recorded, rows of A sum to a_i < 1, and those of dL/dS to
// (1 - a_i) dL/dO_i . O_i, minus the sink's own. No other option changes an identity.
//
// Sums may miss by n eps sum |terms|, where a term of either side is dL/dO_ic D_ij v_jc, or
// D_ij dL/dO_ic for dL/dv, and n counts the roundings that it may have met: one for each key in the
// softmax's sum forward and backward, each query of a head that shares v, each column of v, 16 for
// the rest, and 4 max_j |S_ij|, as exp makes a relative error of S an absolute one. eps is the
// dtype's; n times its smallest normal number is allowed besides, for what underflows. NaN fails.
#pragma once

#include <string>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// One layer's attention in a forward and backward pass, as a Probe records it.
struct AttentionArrays {
  Tensor scores, scores_grad, pattern, pattern_grad, dropped;  ///< [B, H, T, T]
  Tensor z, z_grad;                                            ///< [B, T, H, d_value]: O
  Tensor v, v_grad;                                            ///< [B, T, Hkv, d_value]
};

/// Options that decide the identities of a causal layer.
struct AttentionRules {
  std::int64_t layer = 0;
  std::int64_t window = 0;  ///< keys a query sees, its own included; 0: all before it
  bool sink = false;
};

/// The first identity that does not hold, with layer, head, row and both values: "L0H1, query 3 of
/// sequence 2: the sum of dL/dS over keys is 0.1, needs 0 within 1e-06". "" if all hold.
std::string broken_invariant(const AttentionArrays& x, const AttentionRules& rules);

/// Makes a probe record, in the next pass, all that broken_invariant() reads: in each layer 4 (with
/// dropout 6) arrays of [B, H, T, T].
void record_invariants(Probe& probe, const Transformer& model);
/// Returns the first broken identity of a recorded forward and backward pass, or "".
std::string broken_invariant(const Probe& probe, const Transformer& model);

}  // namespace heed::nn
