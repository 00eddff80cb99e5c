// Copying score of a head (Olsson et al. 2022): measures if the output of the head raises the logit
// of the token that the head attends to.
#pragma once

#include <vector>

#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Returns the copying score of every head, in the order of all_heads() (Olsson et al. 2022,
/// "In-context learning and induction heads", appendix "Head activation evaluators"). The score is
/// measured on `sequences` random sequences, drawn with `seed`. No token occurs twice in a
/// sequence. At each position, the raise of a logit is its change by the head's output minus the
/// mean change over the vocabulary, or 0 if this is negative. The score is 4 s - 1. Here s is the
/// sum of the raises of the token with the largest attention weight, divided by the sum of the
/// raises of all tokens of the sequence. Both sums are over all positions. The score is -1 if s is
/// 0, 1 if s is 1/2, and 3 if s is 1. It is NaN if the head raises the logit of none of these
/// tokens. Throws ValueError for NormPlacement::kPost, because a head's output is then normalized
/// together with the stream.
std::vector<double> copying_scores(const Transformer& model, std::int64_t seed = 1,
                                   std::int64_t sequences = 8);

}  // namespace heed::nn
