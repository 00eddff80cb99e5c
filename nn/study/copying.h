// Whether a head copies: what it writes speaks for the very token that it reads.
#pragma once

#include <vector>

#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Copying score of every head (Olsson et al. 2022, "In-context learning and induction heads",
/// appendix "Head activation evaluators"), in the order of all_heads: on sequences of tokens that
/// do not repeat, drawn by `seed`, how much of what the head's own output raises among the logits
/// of the sequence's tokens is the token that it reads most, from -1 (none) over 1 (half) to 3
/// (all). "Raises" is above its mean over the vocabulary. NaN for a head that raises none of them.
/// ValueError for a model that normalizes after the sum (NormPlacement::kPost),
/// where a head has no output of its own.
std::vector<double> copying_scores(const Transformer& model, std::int64_t seed = 1,
                                   std::int64_t sequences = 8);

}  // namespace heed::nn
