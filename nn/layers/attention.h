// MultiHeadAttention: self-attention and cross attention (Vaswani et al. 2017).
//
//   project -> q, k, v [B, H, T, d] -> softmax(scale * q k^T + bias, masked) v -> merge_heads
//
// The projection weights can be stored in four forms (AttentionForm). Only project() and
// merge_heads() depend on the form (nn/layers/attention_forms.cpp).
#pragma once

#include <optional>
#include <variant>

#include "nn/layers/forward_context.h"
#include "nn/layers/layers.h"

namespace heed::nn {

/// Form in which a layer stores its projection weights. H is the number of query heads, Hkv the
/// number of heads of keys and values, and D is d_model.
enum class AttentionForm {
  /// in_proj_weight [H d_head + Hkv d_head + Hkv d_value, D], as in PyTorch and GPT-2.
  kPackedQKV,
  /// q_proj_weight [H d_head, D], k_proj_weight [Hkv d_head, D] and v_proj_weight [Hkv d_value, D],
  /// as in PyTorch with `kdim` or `vdim`.
  kSeparate,
  /// in_proj_weight [H, 2 d_head + d_value, D]. Each head has its rows of q, then of k, then of v.
  kPackedHeads,
  /// W_Q [H, D, d_head], W_K [Hkv, D, d_head], W_V [Hkv, D, d_value] and W_O [H, d_value, D], as in
  /// TransformerLens.
  kPerHead,
};
template <>
struct EnumNames<AttentionForm> {
  static constexpr std::pair<AttentionForm, const char*> kTable[] = {
      {AttentionForm::kPackedQKV, "packed_qkv"},
      {AttentionForm::kSeparate, "separate"},
      {AttentionForm::kPackedHeads, "packed_heads"},
      {AttentionForm::kPerHead, "per_head"}};
};
/// Rule for the factor by which q k^T is multiplied.
enum class ScaleRule {
  kInvSqrtHead,   ///< 1/sqrt(d_head): if the entries of q and k are N(0, 1), scores have variance 1
  kNone,          ///< factor 1: scores are not scaled
  kInvHead,       ///< 1/d_head (muP: Yang et al. 2022)
  kInvSqrtModel,  ///< 1/sqrt(d_model)
  kLearned,       ///< one parameter per head, initially 1/sqrt(d_head)
};
template <>
struct EnumNames<ScaleRule> {
  static constexpr std::pair<ScaleRule, const char*> kTable[] = {
      {ScaleRule::kInvSqrtHead, "1/sqrt-d-head"},
      {ScaleRule::kNone, "none"},
      {ScaleRule::kInvHead, "1/d-head"},
      {ScaleRule::kInvSqrtModel, "1/sqrt-d-model"},
      {ScaleRule::kLearned, "learned"}};
};
/// Attention sink: an extra softmax term with value 0, so that a head can attend to nothing. The
/// attention pattern does not contain this term, so its rows sum to less than 1.
enum class Sink {
  kNone,  ///< no sink
  kZero,  ///< score 0: the weights are exp(s_i) / (1 + sum exp(s_j)), "softmax-one" (Miller 2023)
  kLearned,  ///< one parameter per head is the score, initially 0 (gpt-oss)
};
template <>
struct EnumNames<Sink> {
  static constexpr std::pair<Sink, const char*> kTable[] = {
      {Sink::kNone, "none"}, {Sink::kZero, "zero"}, {Sink::kLearned, "learned"}};
};

/// Projection weights of one layer. The tensors of its form are defined, all others are undefined.
/// AttentionForm gives the shapes of the weights and the meaning of H, Hkv and D.
struct AttentionWeights {
  ///@{
  /// Weight and bias of the two packed forms. The bias has rank 1 and the order of the weight's
  /// rows. The form kSeparate also uses in_proj_bias if all of q, k and v have a bias, as in
  /// PyTorch.
  Tensor in_proj_weight, in_proj_bias;
  ///@}
  ///@{
  /// Weights and biases of the form kSeparate. The three biases are used only if one or two of them
  /// exist.
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

/// Multi-head attention with grouped heads of keys and values (torch.nn.MultiheadAttention). Its
/// sites for a Probe are hook_q, hook_k, hook_v, hook_attn_scores_raw, hook_attn_scores,
/// hook_pattern, hook_pattern_dropped and hook_z.
struct MultiHeadAttention : Module {
  /// Options of a MultiHeadAttention.
  struct Options {
    std::int64_t d_model;      ///< size of the last axis of inputs and result
    std::int64_t heads;        ///< H, number of query heads
    std::int64_t d_head = 0;   ///< size of a head's queries and keys; 0: d_model / heads
    std::int64_t d_value = 0;  ///< size of a head's values; 0: d_head
    /// Hkv, number of heads of keys and values, a divisor of `heads`. Query head h uses the keys
    /// and values of head h / (heads / kv_heads). 0: heads.
    std::int64_t kv_heads = 0;
    AttentionForm form = AttentionForm::kPackedQKV;  ///< form of the stored projection weights
    bool bias = true;  ///< biases of all projections whose own option below is unset
    ///@{
    /// Bias of the projection to queries, keys or values. The packed forms need the same value for
    /// all three. Unset: `bias`.
    std::optional<bool> q_bias = {}, k_bias = {}, v_bias = {};
    ///@}
    std::optional<bool> out_bias = {};  ///< bias of the output projection; unset: `bias`
    /// Factor by which q k^T is multiplied: a rule, or a finite number.
    std::variant<ScaleRule, double> scale = ScaleRule::kInvSqrtHead;
    /// Normalizes q and k over d_head with an RMSNorm, before RoPE. All heads share the gains
    /// (Henry et al. 2020; Qwen 3).
    bool qk_norm = false;
    /// If c = soft_cap > 0, replaces the scores S by c tanh(S / c) before bias and masks (Gemma 2).
    double soft_cap = 0;
    Sink sink = Sink::kNone;  ///< extra softmax term with value 0
    /// Window size in tokens: a query reads only keys whose distance from it is below `window`. The
    /// key at its own position has distance 0. If `window` is 0, the distance is not limited.
    std::int64_t window = 0;
    bool causal = false;  ///< true: no query reads a later key
    /// Place of the queries among the keys, if there are fewer or more queries than keys.
    CausalAlignment alignment = CausalAlignment::kBottomRight;
    /// Policy for a fully masked row (all scores -inf).
    autograd::FullyMasked fully_masked = autograd::FullyMasked::kZero;
    /// Rotates q and k by their positions (RoPE, Su et al. 2021). If `causal`, the positions of the
    /// queries follow `alignment`.
    bool rope = false;
    double dropout = 0;     ///< probability in [0, 1) with which a weight of the pattern is dropped
    DType dtype = float32;  ///< dtype of parameters and inputs, float32 or float64

    /// Returns these options with all zeros and unset biases replaced by their defaults. Throws
    /// ValueError, or DTypeError for the dtype, if options are out of range or contradict each
    /// other. The text names the options in backquotes.
    Options checked() const;
  } options;                      ///< options as returned by checked()
  AttentionWeights weights;       ///< projection weights and biases
  std::optional<RMSNorm> q_norm;  ///< normalizes q; only with qk_norm
  std::optional<RMSNorm> k_norm;  ///< normalizes k; only with qk_norm
  Tensor head_scale;              ///< shape [heads]; only with ScaleRule::kLearned
  Tensor sink_logit;              ///< score of the sink, shape [heads]; only with Sink::kLearned

  /// Draws the weights like torch.nn.MultiheadAttention, in any form. Throws the errors of
  /// Options::checked().
  explicit MultiHeadAttention(const Options& o, Generator& g = default_generator());
  /// Returns the output of attention, shape [B, Tq, d_model]. The shapes are query
  /// [B, Tq, d_model], key [B, Tk, d_model] and value [B, Tk, d_model].
  /// With ctx.cache, Tk includes the cached tokens in the shapes of the probe's sites, of ctx.keep
  /// and of ctx.bias. A cache needs causal self-attention, aligned at the bottom right, and
  /// ctx.training = false.
  /// Throws ShapeError if shapes do not match, DTypeError if a dtype differs from that of the
  /// weights, and ValueError if ctx.cache cannot be used or ctx.probe has an unreached site.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const ForwardContext& ctx = {}) const;
  /// Returns forward(query, memory, memory, ctx): cross attention to `memory`.
  Tensor forward(const Tensor& query, const Tensor& memory, const ForwardContext& ctx = {}) const {
    return forward(query, memory, memory, ctx);
  }
  /// Returns forward(x, x, x, ctx): self-attention.
  Tensor operator()(const Tensor& x, const ForwardContext& ctx = {}) const {
    return forward(x, x, x, ctx);
  }
  /// Returns forward(query, key, value, ctx).
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const ForwardContext& ctx = {}) const {
    return forward(query, key, value, ctx);
  }
  /// Returns the reason why forward() uses the composite of public ops, such as "soft cap". The
  /// composite keeps all [B, H, Tq, Tk] scores and weights in memory. Returns an empty text if
  /// forward() uses the fused kernel.
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
  double scale() const;
  autograd::AttentionOptions attention_options(const ForwardContext& ctx) const;
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v,
                autograd::AttentionOptions how) const;
  QKV project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor merge_heads(const Tensor& z) const;  // [B, T, H, d_value] -> [B, T, d_model]
};

/// Converts the weights of a layer with these options to the form `to`. The result has its own
/// memory and fits a layer with the same options and form = `to`. The conversion only reshapes,
/// permutes and concatenates, so it is exact. Throws ShapeError unless the weights match the
/// options. Throws ValueError if `to` cannot store them: kPackedHeads needs kv_heads == heads, and
/// both packed forms need biases for all of q, k and v or for none.
AttentionWeights convert(const AttentionWeights& weights,
                         const MultiHeadAttention::Options& options, AttentionForm to);

}  // namespace heed::nn
