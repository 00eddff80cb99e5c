// Exercise: attention with its five steps left blank. Fill them in attention.cpp; the program
// exercise_attention says what is still wrong. Notebook 1 has the names.
#pragma once

#include <string>

#include "nn/nn.h"

namespace heed::exercises {

using autograd::Tensor;

/// q, k [batch, heads, posn, d_head] -> [batch, heads, posn_Q, posn_K]: how much each query wants
/// each key. `d_model` is at hand, too.
Tensor attention_scores(const Tensor& q, const Tensor& k, std::int64_t d_model);
/// scores [batch, heads, posn_Q, posn_K] -> the same, with every key hidden that is later than its
/// query.
Tensor apply_causal_mask(const Tensor& scores);
/// masked scores [batch, heads, posn_Q, posn_K] -> weights that add up to 1 for each query.
Tensor attention_pattern(const Tensor& masked);
/// pattern [batch, heads, posn_Q, posn_K], v [batch, heads, posn_K, d_head]
/// -> [batch, heads, posn_Q, d_head]: each query's mean of the values.
Tensor weigh_values(const Tensor& pattern, const Tensor& v);
/// z [batch, heads, posn, d_head] -> [batch, posn, heads * d_head]: a position's heads side by
/// side.
Tensor join_heads(const Tensor& z);

/// What a blank does: ValueError "NAME is blank: ..."
[[noreturn]] void blank(const std::string& name);

/// The whole layer, around the five steps: x [batch, posn, d_model] -> the same. Weights per head:
/// W_Q, W_K, W_V [heads, d_model, d_head], W_O [heads, d_head, d_model], b_Q, ..., b_O.
Tensor hidden_attention(const nn::AttentionWeights& self, const Tensor& x);

}  // namespace heed::exercises
