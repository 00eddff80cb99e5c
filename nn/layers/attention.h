// Multi-head attention (Vaswani et al. 2017), self and cross, in the stored forms of the field.
//   project -> [B, H, T, d] -> softmax(q k^T scale + bias, masked) v -> merge_heads
// Only project() and merge_heads() know the form (nn/layers/attention_forms.cpp).
#pragma once

#include <optional>
#include <variant>

#include "nn/layers/forward_context.h"
#include "nn/layers/layers.h"

namespace heed::nn {

/// How the projections are stored. H heads of queries, Hkv of keys and values, D = d_model.
enum class AttentionForm {
  kPackedQKV,    ///< in_proj_weight [H d_head + Hkv d_head + Hkv d_value, D]: PyTorch, GPT-2
  kSeparate,     ///< q_proj_weight [H d_head, D], k_proj_weight, v_proj_weight: PyTorch's, too
  kPackedHeads,  ///< in_proj_weight [H, 2 d_head + d_value, D]: q, k, v of head after head
  kPerHead,      ///< W_Q [H, D, d_head], W_K, W_V, W_O [H, d_value, D]: TransformerLens
};
template <>
struct EnumNames<AttentionForm> {
  static constexpr std::pair<AttentionForm, const char*> kTable[] = {
      {AttentionForm::kPackedQKV, "packed_qkv"},
      {AttentionForm::kSeparate, "separate"},
      {AttentionForm::kPackedHeads, "packed_heads"},
      {AttentionForm::kPerHead, "per_head"}};
};
/// Factor of q k^T.
enum class ScaleRule {
  kInvSqrtHead,   ///< 1/sqrt(d_head): scores of N(0, 1) entries have variance 1
  kNone,          ///< 1
  kInvHead,       ///< 1/d_head (muP: Yang et al. 2022)
  kInvSqrtModel,  ///< 1/sqrt(d_model)
  kLearned,       ///< a parameter per head, which starts at 1/sqrt(d_head)
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
/// Attention sink: an extra softmax term with value 0, so that a head can attend to nothing. Rows
/// of the pattern, which leaves it out, sum to less than 1.
enum class Sink {
  kNone,
  kZero,     ///< with the score 0: exp(s_i) / (1 + sum exp(s_j)), "softmax-one" (Miller 2023)
  kLearned,  ///< with a parameter per head, which starts at 0 (gpt-oss)
};
template <>
struct EnumNames<Sink> {
  static constexpr std::pair<Sink, const char*> kTable[] = {
      {Sink::kNone, "none"}, {Sink::kZero, "zero"}, {Sink::kLearned, "learned"}};
};

/// The parameters of one layer, under the names of its form; all others are undefined.
struct AttentionWeights {
  Tensor in_proj_weight, in_proj_bias;  ///< packed; the bias flat, in the weight's order
  /// Separate; the biases only where one is missing, else PyTorch's in_proj_bias holds all three.
  Tensor q_proj_weight, k_proj_weight, v_proj_weight, q_proj_bias, k_proj_bias, v_proj_bias;
  Tensor out_proj_weight, out_proj_bias;  ///< [D, H d_value], [D]; all forms but per head
  Tensor W_Q, W_K, W_V, W_O;              ///< per head
  Tensor b_Q, b_K, b_V, b_O;              ///< [H, d_head], [Hkv, d_head], [Hkv, d_value], [D]

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

struct MultiHeadAttention : Module {
  struct Options {
    std::int64_t d_model, heads;
    std::int64_t d_head = 0;    ///< of queries and keys; 0: d_model / heads, which must divide
    std::int64_t d_value = 0;   ///< 0: d_head
    std::int64_t kv_heads = 0;  ///< 0: heads; divides heads: head h reads k, v h / (heads/kv_heads)
    AttentionForm form = AttentionForm::kPackedQKV;
    bool bias = true;  ///< of all projections, except those that have their own value:
    std::optional<bool> q_bias = {}, k_bias = {}, v_bias = {};  ///< all or none where packed
    std::optional<bool> out_bias = {};
    std::variant<ScaleRule, double> scale = ScaleRule::kInvSqrtHead;
    /// RMSNorm of q and k over d_head, before RoPE, with gains that all heads share (Henry et al.
    /// 2020; Qwen 3).
    bool qk_norm = false;
    double soft_cap = 0;  ///< c > 0: scores S become c tanh(S / c), before masks (Gemma 2)
    Sink sink = Sink::kNone;
    std::int64_t window = 0;  ///< keys less than this far from the query, itself included; 0: all
    bool causal = false;
    CausalAlignment alignment = CausalAlignment::kBottomRight;
    autograd::FullyMasked fully_masked = autograd::FullyMasked::kZero;
    bool rope = false;   ///< rotate q and k by their positions, queries where causality has them
    double dropout = 0;  ///< on the weights
    DType dtype = float32;

    /// Returns these options with every 0 and unset bias filled in. ValueError (DTypeError) that
    /// names the options, in backquotes, which are out of range or contradict each other.
    Options checked() const;
  } options;  ///< as checked() returns them
  AttentionWeights weights;
  std::optional<RMSNorm> q_norm, k_norm;
  Tensor head_scale, sink_logit;  ///< [heads], where learned

  /// Weights as torch.nn.MultiheadAttention draws them, whatever the form. Throws as
  /// Options::checked() does.
  explicit MultiHeadAttention(const Options& o, Generator& g = default_generator());
  /// query [B, Tq, d_model] attends to key [B, Tk, d_model] and gets value [B, Tk, d_model]
  /// -> [B, Tq, d_model]. With ctx.cache, which takes causal self-attention outside training, Tk
  /// counts the cached tokens, too: in the probe's shapes, ctx.keep and ctx.bias.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const ForwardContext& ctx = {}) const;
  /// Cross attention: keys and values are both of `memory`.
  Tensor forward(const Tensor& query, const Tensor& memory, const ForwardContext& ctx = {}) const {
    return forward(query, memory, memory, ctx);
  }
  /// Self-attention.
  Tensor operator()(const Tensor& x, const ForwardContext& ctx = {}) const {
    return forward(x, x, x, ctx);
  }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const ForwardContext& ctx = {}) const {
    return forward(query, key, value, ctx);
  }
  /// Why forward() computes the composite, which keeps all [B, H, Tq, Tk]: "soft cap"; empty where
  /// attention is fused.
  std::string_view composite_reason() const;
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
    Tensor q, k, v;  // [B, T, H, d]; k and v of the kv_heads
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

/// Returns the weights of a layer with these options in another form, for options with form = `to`,
/// in memory of their own. Reshapes, permutes and concatenates only: nothing is lost. ShapeError
/// unless the weights are those of the options. ValueError where `to` cannot hold it: packed_heads
/// with kv_heads != heads, either packed form with some of the q, k, v biases.
AttentionWeights convert(const AttentionWeights& weights,
                         const MultiHeadAttention::Options& options, AttentionForm to);

}  // namespace heed::nn
