// Exercise: an attention layer with five blank steps. Fill them in, in attention.cpp. The program
// exercise_attention prints what is still wrong. The names are taken from notebook 1
// (examples/notebooks).
#pragma once

#include <string>

#include "nn/nn.h"

namespace heed::exercises {

using autograd::Tensor;

/// Returns the scaled scores of each query for each key, [batch, heads, posn_Q, posn_K]. q and k
/// are [batch, heads, posn, d_head].
Tensor attention_scores(const Tensor& q, const Tensor& k, Index d_model);
/// Returns the scores after masking. For each query, every later key is masked. Input and result
/// are [batch, heads, posn_Q, posn_K].
Tensor apply_causal_mask(const Tensor& scores);
/// Returns the attention weights, which add up to 1 for each query. Input (the masked scores) and
/// result are [batch, heads, posn_Q, posn_K].
Tensor attention_pattern(const Tensor& masked);
/// Returns the weighted mean of the values for each query, [batch, heads, posn_Q, d_head]. pattern
/// is [batch, heads, posn_Q, posn_K] and v is [batch, heads, posn_K, d_head].
Tensor weigh_values(const Tensor& pattern, const Tensor& v);
/// Returns z, [batch, heads, posn, d_head], with the heads of each position concatenated:
/// [batch, posn, heads * d_head].
Tensor join_heads(const Tensor& z);

/// Throws ValueError with the text "NAME is blank: ...".
[[noreturn]] void blank(const std::string& name);

/// Runs the whole layer, which calls the five steps. x and the result are [batch, posn, d_model].
/// The weights are stored per head: W_Q, W_K, W_V [heads, d_model, d_head], W_O [heads, d_head,
/// d_model], b_Q, b_K, b_V [heads, d_head] and b_O [d_model].
Tensor hidden_attention(const nn::HeadWeights& self, const Tensor& x);

}  // namespace heed::exercises
