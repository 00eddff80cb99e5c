// MultiHeadAttention: self-attention and cross attention (Vaswani et al. 2017).
//
//   project -> q, k, v [B, H, T, d] -> softmax(scale * q k^T + bias, masked) v -> merge_heads
//
// The projection weights can be stored in four forms (AttentionForm). In a forward pass, only
// project() and merge_heads() depend on the form (nn/layers/attention_forms.cpp).
#pragma once

#include <optional>
#include <variant>

#include "nn/layers/forward_context.h"
#include "nn/layers/layers.h"

namespace heed::nn {

/// Form in which a layer stores its projection weights. H is the number of query heads, Hkv the
/// number of heads of keys and values, and D is d_model. d_head is the size of a head's queries and
/// keys, and d_value the size of its values.
enum class AttentionForm {
  /// in_proj_weight [H d_head + Hkv d_head + Hkv d_value, D], as in PyTorch and GPT-2.
  kPackedQKV,
  /// q_proj_weight [H d_head, D], k_proj_weight [Hkv d_head, D] and v_proj_weight [Hkv d_value, D],
  /// as in PyTorch with `kdim` or `vdim`.
  kSeparate,
  /// in_proj_weight [H, 2 d_head + d_value, D]. For each head, the rows of q come first, then the
  /// rows of k, then the rows of v.
  kPackedHeads,
  /// W_Q [H, D, d_head], W_K [Hkv, D, d_head], W_V [Hkv, D, d_value] and W_O [H, d_value, D], as in
  /// TransformerLens.
  kPerHead,
};
template <>
inline constexpr auto kEnumNames<AttentionForm> = std::to_array({"packed_qkv", "separate",
                                                                 "packed_heads", "per_head"});
/// Rule for the factor by which q k^T is multiplied.
enum class ScaleRule {
  kInvSqrtHead,   ///< 1/sqrt(d_head): if the entries of q and k are N(0, 1), scores have variance 1
  kNone,          ///< factor 1: scores are not scaled
  kInvHead,       ///< 1/d_head (muP: Yang et al. 2022)
  kInvSqrtModel,  ///< 1/sqrt(d_model)
  kLearned,       ///< one parameter per head, initially 1/sqrt(d_head)
};
template <>
inline constexpr auto kEnumNames<ScaleRule> = std::to_array({"1/sqrt-d-head", "none", "1/d-head",
                                                             "1/sqrt-d-model", "learned"});
/// Attention sink: an extra entry of each softmax whose value vector is 0, so that a head can
/// attend to nothing. The attention pattern does not contain this entry, so its rows sum to less
/// than 1.
enum class Sink {
  kNone,  ///< no sink
  /// The sink has score 0, so key i with score s_i gets the weight exp(s_i) / (1 + sum_j exp(s_j)).
  /// This is "softmax-one" (Miller 2023).
  kZero,
  kLearned,  ///< the score of the sink is one parameter per head, initially 0 (gpt-oss)
};
template <>
inline constexpr auto kEnumNames<Sink> = std::to_array({"none", "zero", "learned"});

/// Projection weights of one layer. Only the tensors of the form in which the layer stores its
/// weights are defined. AttentionForm gives the shapes of the weights and the meaning of H, Hkv, D,
/// d_head and d_value.
struct AttentionWeights {
  ///@{
  /// Weight and bias of the two packed forms. The bias has rank 1, and its elements have the order
  /// of the weight's rows. The form kSeparate also uses in_proj_bias if all of q, k and v have a
  /// bias, as in PyTorch.
  Tensor in_proj_weight, in_proj_bias;
  ///@}
  ///@{
  /// Weights and biases of the form kSeparate. The three biases here are used only if one or two of
  /// q, k and v have a bias.
  Tensor q_proj_weight, k_proj_weight, v_proj_weight, q_proj_bias, k_proj_bias, v_proj_bias;
  ///@}
  ///@{
  /// Weight [D, H d_value] and bias [D] of the output projection, in all forms except kPerHead.
  Tensor out_proj_weight, out_proj_bias;
  ///@}
  ///@{
  /// Weights of the form kPerHead.
  Tensor W_Q, W_K, W_V, W_O;
  ///@}
  ///@{
  /// Biases of the form kPerHead: [H, d_head], [Hkv, d_head], [Hkv, d_value] and [D].
  Tensor b_Q, b_K, b_V, b_O;
  ///@}

  /// Calls f(name, tensor) for every tensor, also for undefined ones.
  template <class F>
  void visit(F&& f) {
    f("in_proj_weight", in_proj_weight), f("in_proj_bias", in_proj_bias);
    f("q_proj_weight", q_proj_weight), f("q_proj_bias", q_proj_bias);
    f("k_proj_weight", k_proj_weight), f("k_proj_bias", k_proj_bias);
    f("v_proj_weight", v_proj_weight), f("v_proj_bias", v_proj_bias);
    f("W_Q", W_Q), f("W_K", W_K), f("W_V", W_V), f("W_O", W_O);
    f("b_Q", b_Q), f("b_K", b_K), f("b_V", b_V), f("b_O", b_O);
    f("out_proj.weight", out_proj_weight), f("out_proj.bias", out_proj_bias);
  }
};

/// Multi-head attention (torch.nn.MultiheadAttention). Several query heads can share one head of
/// keys and values. The sites of this layer for a Probe are hook_q, hook_k, hook_v,
/// hook_attn_scores_raw, hook_attn_scores, hook_pattern, hook_pattern_dropped and hook_z.
struct MultiHeadAttention : Module {
  /// Options of a MultiHeadAttention.
  struct Options {
    std::int64_t d_model;  ///< size of the last axis of inputs and result
    std::int64_t heads;    ///< H, number of query heads
    std::int64_t d_head =
        0;  ///< size of a head's queries and keys; 0: d_model / heads, a whole number
    std::int64_t d_value = 0;  ///< size of a head's values; 0 means d_head
    /// Hkv, the number of heads of keys and values. It must divide `heads`. Query head h uses the
    /// keys and values of head h / (heads / kv_heads), rounded down. 0 means `heads`.
    std::int64_t kv_heads = 0;
    AttentionForm form = AttentionForm::kPackedQKV;  ///< form of the stored projection weights
    bool bias = true;  ///< default of q_bias, k_bias, v_bias and out_bias
    ///@{
    /// If true, the projection to queries (or keys, or values) has a bias. The packed forms need
    /// the same value for all three options. If an option is unset, the value of `bias` is used.
    std::optional<bool> q_bias = {}, k_bias = {}, v_bias = {};
    ///@}
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
    Sink sink = Sink::kNone;  ///< extra softmax entry whose value vector is 0
    /// Window size in tokens: a query reads only keys whose distance from it is below `window`. The
    /// key at the query's own position has distance 0. If `window` is 0, the distance is not
    /// limited.
    std::int64_t window = 0;
    bool causal = false;  ///< true: a query reads no key at a later position
    /// Positions of the queries relative to the keys, if the numbers of queries and keys differ.
    CausalAlignment alignment = CausalAlignment::kBottomRight;
    /// Policy for a fully masked row (all scores -inf).
    autograd::FullyMasked fully_masked = autograd::FullyMasked::kZero;
    /// If true, q and k are rotated by angles that are proportional to their positions (RoPE, Su et
    /// al. 2021). If `causal` is true, `alignment` determines the positions of the queries.
    bool rope = false;
    double dropout = 0;     ///< dropout probability of each attention weight, in [0, 1)
    DType dtype = float32;  ///< dtype of parameters and inputs, float32 or float64

    /// Returns the head of keys and values that a query head uses.
    std::int64_t kv_head(std::int64_t head) const { return head / (heads / kv_heads); }
    /// Returns these options with the defaults of d_head, d_value, kv_heads and the biases filled
    /// in. Throws DTypeError unless `dtype` is float32 or float64. Throws ValueError if another
    /// option is out of range, or if options contradict each other. The error text names these
    /// options.
    Options checked() const;
    /// Returns true if all options are equal.
    bool operator==(const Options&) const = default;
  } options;                      ///< options as returned by checked()
  AttentionWeights weights;       ///< projection weights and biases
  std::optional<RMSNorm> q_norm;  ///< norm of q; empty unless options.qk_norm is true
  std::optional<RMSNorm> k_norm;  ///< norm of k; empty unless options.qk_norm is true
  Tensor head_scale;              ///< learned scale, shape [heads]; only with ScaleRule::kLearned
  Tensor sink_logit;              ///< score of the sink, shape [heads]; only with Sink::kLearned

  /// Draws the weights like torch.nn.MultiheadAttention, whichever form stores them. Throws the
  /// errors of Options::checked().
  explicit MultiHeadAttention(const Options& o, Generator& g = default_generator());
  /// Returns the output of attention, shape [B, Tq, d_model]. The inputs have the shapes query
  /// [B, Tq, d_model], key [B, Tk, d_model] and value [B, Tk, d_model].
  /// If ctx.cache is set, Tk includes the cached tokens in the shapes of ctx.keep, of ctx.bias, and
  /// of the scores and weights that a probe records. The sites hook_k and hook_v have only the new
  /// tokens. A cache requires causal self-attention with CausalAlignment::kBottomRight, and
  /// ctx.training must be false.
  /// Throws ShapeError if shapes do not match, DTypeError if a dtype differs from that of the
  /// weights, and ValueError if ctx.cache cannot be used, if ctx.probe records or replaces a site
  /// that no forward pass has reached, or for a fully masked row under FullyMasked::kError.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const ForwardContext& ctx = {}) const;
  /// Returns forward(x, x, x, ctx): self-attention.
  Tensor operator()(const Tensor& x, const ForwardContext& ctx = {}) const {
    return forward(x, x, x, ctx);
  }
  /// Returns the factor by which q k^T is multiplied. With ScaleRule::kLearned, returns 1, and q is
  /// multiplied by `head_scale`.
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
    f("scale", head_scale);
    f("sink", sink_logit);
  }

 private:
  struct QKV {
    Tensor q, k, v;  // q [B, Tq, H, d_head], k [B, Tk, Hkv, d_head], v [B, Tk, Hkv, d_value]
  };
  void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value,
                    const ForwardContext& ctx) const;
  autograd::AttentionOptions attention_options(const ForwardContext& ctx) const;
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v,
                autograd::AttentionOptions how) const;
  QKV project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor merge_heads(const Tensor& z) const;  // [B, T, H, d_value] -> [B, T, d_model]
};

/// Converts the weights of a layer with these options to the form `to`. The result has its own
/// memory. It fits a layer whose options are `options` with form = `to`. The conversion only
/// reshapes, permutes and concatenates, so it is exact. Throws ShapeError unless the weights match
/// the options. Throws ValueError if the form `to` cannot store the weights: kPackedHeads needs
/// kv_heads == heads, and both packed forms need biases for all of q, k and v or for none.
AttentionWeights convert(const AttentionWeights& weights,
                         const MultiHeadAttention::Options& options, AttentionForm to);

/// Repeats each head of keys or values x [B, Hkv, T, d] for all heads that share it. Returns shape
/// [B, heads, T, d].
Tensor repeat_heads(const Tensor& x, std::int64_t heads);

}  // namespace heed::nn
