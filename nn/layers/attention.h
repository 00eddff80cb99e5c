// MultiHeadAttention: self-attention and cross attention (Vaswani et al. 2017).
//
//   project -> q, k, v [B, H, T, d] -> softmax(scale * q k^T + bias, masked) v -> merge_heads
//
// The projection weights are stored as in PyTorch. by_head() returns one matrix per head, as in
// TransformerLens.
#pragma once

#include <optional>
#include <variant>

#include "nn/layers/forward_context.h"
#include "nn/layers/layers.h"

namespace heed::nn {

/// Rule for the factor by which q k^T is multiplied.
enum class ScaleRule {
  kInvSqrtHead,   ///< 1/sqrt(d_head): if the entries of q and k are N(0, 1), scores have variance 1
  kNone,          ///< factor 1: scores are not scaled
  kInvHead,       ///< 1/d_head (muP: Yang et al. 2022)
  kInvSqrtModel,  ///< 1/sqrt(d_model)
};
template <>
inline constexpr auto kEnumNames<ScaleRule> = std::to_array({"1/sqrt-d-head", "none", "1/d-head",
                                                             "1/sqrt-d-model"});

/// Projection weights of one layer, as in PyTorch and GPT-2. H is the number of query heads, Hkv
/// the number of heads of keys and values, and D is d_model. d_head is the size of a head's queries
/// and keys, and d_value the size of its values. The rows of the first two tensors are those of q,
/// then of k, then of v.
struct AttentionWeights {
  Tensor in_proj_weight = {};   ///< [H d_head + Hkv d_head + Hkv d_value, D]
  Tensor in_proj_bias = {};     ///< [H d_head + Hkv d_head + Hkv d_value], or undefined
  Tensor out_proj_weight = {};  ///< [D, H d_value]
  Tensor out_proj_bias = {};    ///< [D], or undefined

  /// Calls f(name, tensor) for every tensor, also for undefined ones.
  template <class F>
  void visit(F&& f) {
    f("in_proj_weight", in_proj_weight), f("in_proj_bias", in_proj_bias);
    f("out_proj.weight", out_proj_weight), f("out_proj.bias", out_proj_bias);
  }
};

/// Projection weights with one matrix per head, as in TransformerLens. AttentionWeights gives the
/// meaning of H, Hkv, D, d_head and d_value. Biases that a layer does not have are undefined.
struct HeadWeights {
  Tensor W_Q = {};  ///< [H, D, d_head]
  Tensor W_K = {};  ///< [Hkv, D, d_head]
  Tensor W_V = {};  ///< [Hkv, D, d_value]
  Tensor W_O = {};  ///< [H, d_value, D]
  Tensor b_Q = {};  ///< [H, d_head]
  Tensor b_K = {};  ///< [Hkv, d_head]
  Tensor b_V = {};  ///< [Hkv, d_value]
  Tensor b_O = {};  ///< [D]
};

/// Multi-head attention (torch.nn.MultiheadAttention). Several query heads can share one head of
/// keys and values. The sites of this layer for a Probe are hook_q, hook_k, hook_v,
/// hook_attn_scores_raw, hook_attn_scores, hook_pattern, hook_pattern_dropped and hook_z.
struct MultiHeadAttention : Module {
  /// Options of a MultiHeadAttention.
  struct Options {
    Index d_model;      ///< size of the last axis of inputs and result
    Index heads;        ///< H, number of query heads
    Index d_head = 0;   ///< size of a head's queries and keys; 0: d_model / heads, a whole number
    Index d_value = 0;  ///< size of a head's values; 0 means d_head
    /// Hkv, the number of heads of keys and values. It must divide `heads`. Query head h uses the
    /// keys and values of head h / (heads / kv_heads), rounded down. 0 means `heads`.
    Index kv_heads = 0;
    bool bias = true;  ///< if true, the projections to queries, keys and values have biases
    /// If true, the output projection has a bias. If unset, the value of `bias` is used.
    std::optional<bool> out_bias = {};
    /// Factor by which q k^T is multiplied: a rule, or a finite number.
    std::variant<ScaleRule, double> scale = ScaleRule::kInvSqrtHead;
    /// If true, an RMSNorm over d_head is applied to q and another one to k, before RoPE. All heads
    /// share the weights of these norms (Henry et al. 2020; Qwen 3).
    bool qk_norm = false;
    /// If soft_cap > 0, each score s becomes soft_cap * tanh(s / soft_cap), before the score bias
    /// and the masks are applied (Gemma 2). 0 means no cap.
    double soft_cap = 0;
    /// Window size in tokens: a query reads only keys whose distance from it is below `window`. The
    /// key at the query's own position has distance 0. If `window` is 0, the distance is not
    /// limited.
    Index window = 0;
    /// If true, a query reads no key at a later position. The last query is at the last key.
    bool causal = false;
    /// If true, q and k are rotated by angles that are proportional to their positions (RoPE, Su et
    /// al. 2021). If `causal` is true, the last query is at the last key, otherwise the first query
    /// is at the first key.
    bool rope = false;
    double dropout = 0;     ///< dropout probability of each attention weight, in [0, 1)
    DType dtype = float32;  ///< dtype of parameters and inputs, float32 or float64

    /// Returns the head of keys and values that a query head uses.
    Index kv_head(Index head) const { return head / (heads / kv_heads); }
    /// Returns these options with the defaults of d_head, d_value, kv_heads and out_bias filled in.
    /// Throws DTypeError unless `dtype` is float32 or float64. Throws ValueError if another option
    /// is out of range, or if options contradict each other. The error text names these options.
    Options checked() const;
    /// Returns true if all options are equal.
    bool operator==(const Options&) const = default;
  } options;                      ///< options as returned by checked()
  AttentionWeights weights;       ///< projection weights and biases
  std::optional<RMSNorm> q_norm;  ///< norm of q; empty unless options.qk_norm is true
  std::optional<RMSNorm> k_norm;  ///< norm of k; empty unless options.qk_norm is true

  /// Draws the weights like torch.nn.MultiheadAttention. Throws the errors of Options::checked().
  explicit MultiHeadAttention(const Options& o, Generator& g = default_generator());
  /// Returns the output of attention, shape [B, Tq, d_model]. The inputs have the shapes query
  /// [B, Tq, d_model], key [B, Tk, d_model] and value [B, Tk, d_model].
  /// If ctx.cache is set, Tk includes the cached tokens in the shapes of ctx.keep, of ctx.bias, and
  /// of the scores and weights that a probe records. The sites hook_k and hook_v have only the new
  /// tokens. A cache requires causal self-attention, and ctx.training must be false.
  /// Throws ShapeError if shapes do not match, DTypeError if a dtype differs from that of the
  /// weights, and ValueError if ctx.cache cannot be used, or if ctx.probe records or replaces a
  /// site that no forward pass has reached.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const ForwardContext& ctx = {}) const;
  /// Returns forward(x, x, x, ctx): self-attention.
  Tensor operator()(const Tensor& x, const ForwardContext& ctx = {}) const {
    return forward(x, x, x, ctx);
  }
  /// Returns the factor by which q k^T is multiplied.
  double scale() const;
  /// Returns "" if forward() uses the fused kernel for a default context. Otherwise returns the
  /// reason, such as "soft cap", why forward() computes attention from public ops. These keep all
  /// scores and weights [B, H, Tq, Tk] in memory.
  std::string_view composite_reason() const;
  /// Calls f(name, x) for all parameters and for the norms of q and k.
  template <class F>
  void visit(F&& f) {
    weights.visit(f);
    if (q_norm) f("q_norm", *q_norm);
    if (k_norm) f("k_norm", *k_norm);
  }

 private:
  struct QKV {
    Tensor q, k, v;  // q [B, Tq, H, d_head], k [B, Tk, Hkv, d_head], v [B, Tk, Hkv, d_value]
  };
  void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value,
                    const ForwardContext& ctx) const;
  autograd::AttentionOptions attention_options(const ForwardContext& ctx) const;
  QKV project(const Tensor& query, const Tensor& key, const Tensor& value) const;
};

/// Returns the weights of a layer with these options as one matrix per head. The tensors are
/// differentiable views of the weights.
HeadWeights by_head(const AttentionWeights& weights, const MultiHeadAttention::Options& options);
/// Returns the weights in the order of PyTorch, the inverse of by_head(). The result is
/// differentiable.
AttentionWeights packed(const HeadWeights& heads);

/// Repeats each head of keys or values x [B, Hkv, T, d] for all heads that share it. Returns shape
/// [B, heads, T, d].
Tensor repeat_heads(const Tensor& x, Index heads);

}  // namespace heed::nn
