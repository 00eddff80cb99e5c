// Tests of the options of MultiHeadAttention. Each is compared with the public ops that define it.
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::autograd::testing;
using heed::nn::testing::random_layer;
using Options = MultiHeadAttention::Options;

TEST_CASE("the scale rules") {
  const std::pair<std::variant<ScaleRule, double>, double> rules[] = {
      {ScaleRule::kInvSqrtHead, 1 / std::sqrt(5.0)},
      {ScaleRule::kNone, 1},
      {ScaleRule::kInvHead, 1 / 5.0},
      {ScaleRule::kInvSqrtModel, 1 / std::sqrt(12.0)},
      {-0.3, -0.3}};
  for (const auto& [rule, number] : rules) {
    const MultiHeadAttention layer =
        random_layer({.d_model = 12, .heads = 2, .d_head = 5, .scale = rule, .dtype = float64});
    Probe probe;
    probe.record("hook_q").record("hook_k").record("hook_attn_scores");
    layer(draw({1, 4, 12}, 3), {.probe = &probe});
    const Tensor q = permute(probe.value("hook_q"), {0, 2, 1, 3}),
                 k = permute(probe.value("hook_k"), {0, 2, 3, 1});
    CHECK(close(probe.value("hook_attn_scores"), matmul(q, k) * number));
  }
  CHECK_THROWS_WITH(MultiHeadAttention({.d_model = 4, .heads = 2, .scale = std::nan("")}),
                    "MultiHeadAttention: needs a finite `scale`, got nan");
}

TEST_CASE("masks and biases are distinct types, and a mask is true where a query may attend") {
  static_assert(!std::is_convertible_v<Tensor, KeepMask>);
  static_assert(!std::is_convertible_v<Tensor, ScoreBias>);
  static_assert(!std::is_constructible_v<KeepMask, ScoreBias>);
  static_assert(!std::is_constructible_v<ScoreBias, KeepMask>);
  const Tensor mask = to(tril_mask(3, 3), float32);
  CHECK_THROWS_WITH(
      ScoreBias(mask),
      "ScoreBias: holds only 0 and 1: added to scores, such a mask masks nothing. Use "
      "KeepMask(ne(mask, 0)), or KeepMask(eq(mask, 0)) where 1 means hidden");
  CHECK_THROWS_AS(ScoreBias(ones({2, 2}, float64)), ValueError);
  CHECK_THROWS_WITH(ScoreBias(tril_mask(3, 3)),
                    "ScoreBias: needs float32 or float64, got bool8; for true or false per key use "
                    "KeepMask");
  CHECK_NOTHROW(ScoreBias(zeros({3, 3})));  // a table of zeros changes nothing, so it is accepted
  CHECK_NOTHROW(ScoreBias(zeros({0, 3})));
  CHECK_NOTHROW(ScoreBias(ones({3, 3}).requires_grad_()));  // a learned bias may be all ones
  CHECK_NOTHROW(ScoreBias(mask * 2.0));
}

TEST_CASE("scores, weights and dropped weights are computed per head") {
  Generator drop(9), same(9);
  const Tensor q = draw({2, 3, 4, 5}, 1), k = draw({2, 3, 6, 5}, 2), v = draw({2, 3, 6, 5}, 3);
  const KeepMask keep = KeepMask::causal(4, 6);
  const AttentionResult r = attention_with_weights(
      q, k, v, {.keep = keep, .bias = ScoreBias(draw({6}, 4)), .dropout = 0.4, .generator = &drop});
  CHECK(close(r.raw_scores, matmul(q, mT(k)) / std::sqrt(5.0)));
  const Tensor biased = r.raw_scores + draw({6}, 4);
  CHECK(same_bits(r.scores, masked_fill(biased, logical_not(keep.tensor()), -kInf)));
  CHECK(same_bits(r.pattern, softmax(r.scores, -1)));
  CHECK(close(sum(r.pattern, {-1}), ones({2, 3, 4}, float64)));  // rows sum to 1 before dropout
  const Tensor mask = dropout(ones({2, 3, 4, 6}, float64), 0.4, same.next_u64());
  CHECK(close(r.dropped, r.pattern * mask));
  CHECK(!close(r.dropped, r.pattern));
  CHECK(close(r.output, matmul(r.dropped, v)));
  // The site hook_pattern has the weights of each head before dropout, also in training.
  const MultiHeadAttention layer =
      random_layer({.d_model = 12, .heads = 3, .dropout = 0.5, .dtype = float64});
  Probe probe;
  probe.record("hook_pattern");
  layer(draw({2, 4, 12}, 3), {.training = true, .probe = &probe});
  CHECK(probe.value("hook_pattern").shape() == Shape{2, 3, 4, 4});
  CHECK(close(sum(probe.value("hook_pattern"), {-1}), ones({2, 3, 4}, float64)));
}

TEST_CASE("query, key and value may be three tensors") {
  const Options o{.d_model = 12, .heads = 3, .kv_heads = 3, .causal = true, .dtype = float64};
  const MultiHeadAttention layer = random_layer(o);
  const Tensor query = draw({2, 5, 12}, 3), key = draw({2, 6, 12}, 4), value = draw({2, 6, 12}, 5);
  const auto heads = [&](const Tensor& x, Index which) {
    const Index begin = 12 * which, end = begin + 12;
    const Tensor rows = linear(x, slice(layer.weights.in_proj_weight, 0, begin, end),
                               slice(layer.weights.in_proj_bias, 0, begin, end));
    return permute(reshape(rows, {2, x.size(1), 3, 4}), {0, 2, 1, 3});
  };
  const Tensor z =
      attention(heads(query, 0), heads(key, 1), heads(value, 2), {.scale = 0.5, .causal = true});
  const Tensor expected = linear(reshape(permute(z, {0, 2, 1, 3}), {2, 5, 12}),
                                 layer.weights.out_proj_weight, layer.weights.out_proj_bias);
  CHECK(close(layer.forward(query, key, value), expected));
  CHECK(same_bits(layer.forward(query, query, query), layer(query)));
}

// Returns the weights of a layer that are defined.
std::vector<Tensor> tensors_of(AttentionWeights weights) {
  std::vector<Tensor> list;
  weights.visit([&](std::string_view, const Tensor& x) {
    if (x.defined()) list.push_back(x);
  });
  return list;
}

TEST_CASE(
    "by_head() gives the matrices of notebook 1, packed() is its inverse, and both carry "
    "gradients") {
  for (const bool bias : {true, false}) {
    const MultiHeadAttention layer = random_layer({.d_model = 12,
                                                   .heads = 4,
                                                   .d_head = 5,
                                                   .d_value = 3,
                                                   .kv_heads = 2,
                                                   .bias = bias,
                                                   .causal = true,
                                                   .dtype = float64});
    const HeadWeights w = by_head(layer.weights, layer.options);
    CHECK(w.W_Q.shape() == Shape{4, 12, 5});
    CHECK(w.W_K.shape() == Shape{2, 12, 5});
    CHECK(w.W_V.shape() == Shape{2, 12, 3});
    CHECK(w.W_O.shape() == Shape{4, 3, 12});
    const Tensor x = draw({2, 5, 12}, 3), dy = draw({2, 5, 12}, 5);
    const auto project = [&](const Tensor& weight, const Tensor& b) {
      const Tensor y =
          einsum("batch pos d_model, head d_model d_head -> batch head pos d_head", {x, weight});
      return repeat_heads(b.defined() ? y + unsqueeze(b, 1) : y, 4);
    };
    const Tensor z = attention(project(w.W_Q, w.b_Q), project(w.W_K, w.b_K), project(w.W_V, w.b_V),
                               {.causal = true});
    Tensor y =
        einsum("batch head pos d_head, head d_head d_model -> batch pos d_model", {z, w.W_O});
    if (bias) y = y + w.b_O;
    CHECK(close(layer(x), y));
    MultiHeadAttention again(layer.options);
    again.weights = packed(w);
    const auto leaves = tensors_of(layer.weights), back = tensors_of(again.weights);
    REQUIRE((leaves.size() == (bias ? 4u : 2u) && back.size() == leaves.size()));
    const auto want = grad(layer(x), leaves, {.grad_output = dy}),
               through_heads = grad(y, leaves, {.grad_output = dy, .retain_graph = true}),
               through_both = grad(again(x), leaves, {.grad_output = dy});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      CHECK(same_bits(back[i], leaves[i]));
      CHECK(close(through_heads[i], want[i]));
      CHECK(close(through_both[i], want[i]));
    }
  }
}

TEST_CASE("heads that share keys and values equal heads with copies of them") {
  for (const Index kv : {1, 2}) {
    Options o{.d_model = 12, .heads = 4, .d_head = 3, .kv_heads = kv, .dtype = float64};
    const MultiHeadAttention grouped = random_layer(o);
    o.kv_heads = 4;
    MultiHeadAttention full_layer(o);
    const std::vector<Index> shared = {0, 0, kv / 2, kv / 2};
    HeadWeights copies = by_head(grouped.weights, grouped.options);
    for (Tensor* w : {&copies.W_K, &copies.W_V, &copies.b_K, &copies.b_V})
      *w = index_select(*w, 0, from_data(shared, {4}));
    full_layer.weights = packed(copies);
    const Tensor x = draw({2, 5, 12}, 3);
    CHECK(close(grouped(x), full_layer(x)));
  }
}

TEST_CASE("the output projection may have a bias if the others have none, and the reverse") {
  for (const bool out : {true, false}) {
    const MultiHeadAttention layer(
        {.d_model = 4, .heads = 2, .bias = !out, .out_bias = out, .dtype = float64});
    CHECK(layer.weights.in_proj_bias.defined() != out);
    CHECK(layer.weights.out_proj_bias.defined() == out);
  }
}

TEST_CASE("a layer draws its weights like torch.nn.MultiheadAttention, with and without biases") {
  for (const bool bias : {true, false}) {
    Generator g(9), same(9);
    const MultiHeadAttention layer({.d_model = 8, .heads = 2, .bias = bias}, g);
    // A layer without a bias draws no values for the bias.
    const Linear out({.in = 8, .out = 8, .bias = bias}, same);
    const Tensor in = empty({24, 8});
    init::xavier_uniform(in, same);
    CHECK(same_bits(layer.weights.out_proj_weight, out.weight));
    CHECK(same_bits(layer.weights.in_proj_weight, in));
    CHECK(layer.weights.out_proj_bias.defined() == bias);
    if (bias) CHECK(largest(layer.weights.out_proj_bias) == 0);
  }
}

TEST_CASE("errors for mismatched query, key and value contain the shapes") {
  const MultiHeadAttention layer({.d_model = 4, .heads = 2, .causal = true});
  const Tensor x = zeros({2, 3, 4}), longer = zeros({2, 5, 4});
  CHECK_THROWS_WITH(layer.forward(x, x, longer),
                    "MultiHeadAttention: key [2, 3, 4] and value [2, 5, 4] differ: each key needs "
                    "one value");
  CHECK_THROWS_WITH(layer.forward(x, zeros({1, 3, 4}), x),
                    "MultiHeadAttention: query [2, 3, 4] and key [1, 3, 4] differ in batch size");
  CHECK_THROWS_WITH(layer.forward(x, x, zeros({2, 3, 6})),
                    "MultiHeadAttention: needs [B, T, d_model = 4], got [2, 3, 6]");
}

TEST_CASE("RoPE gives queries the positions that the causal mask assumes") {
  const Options o{.d_model = 12, .heads = 3, .causal = true, .rope = true, .dtype = float64};
  const MultiHeadAttention layer = random_layer(o);
  const Tensor x = draw({2, 7, 12}, 3), all = layer(x);
  // The last three queries with all keys give the last rows of the full forward pass.
  CHECK(close(layer.forward(slice(x, 1, 4, 7), x, x), slice(all, 1, 4, 7)));
  // With more queries than keys, the last query has the position of the last key.
  const Tensor end = slice(x, 1, 4, 7), few = layer.forward(x, end, end);
  CHECK(close(slice(few, 1, 4, 7), layer(end)));
}

}  // namespace
