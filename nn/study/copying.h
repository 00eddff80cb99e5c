// Copying score of heads: whether the output of a head raises the logit of the token that it reads.
#pragma once

#include <vector>

#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Returns the copying score of every head, in the order of all_heads() (Olsson et al. 2022,
/// "In-context learning and induction heads", appendix "Head activation evaluators"). The score is
/// measured on `sequences` sequences of tokens that do not repeat, drawn with `seed`. A head raises
/// a logit if its own output changes the logit by more than the mean over the vocabulary. Among the
/// logits of the sequence's tokens, the score measures the share of the raise that goes to the
/// token with the largest weight: -1 (no share), 1 (one half), 3 (all). It is NaN for a head that
/// raises none of them. Throws ValueError for NormPlacement::kPost, because a head's output is then
/// normalized together with the stream.
std::vector<double> copying_scores(const Transformer& model, std::int64_t seed = 1,
                                   std::int64_t sequences = 8);

}  // namespace heed::nn
