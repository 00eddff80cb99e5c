// Multi-head attention (Vaswani et al. 2017), self and cross, in the stored forms of the field.
#pragma once

#include "nn/layers.h"

namespace heed::nn {

/// How the projections are stored. Only project() knows; after it all forms are [B, H, T, d].
enum class AttentionForm {
  kPackedQKV,  ///< in_proj_weight [3 H d, d_model]: PyTorch's nn.MultiheadAttention, GPT-2
  kSeparate,   ///< q_proj_weight, k_proj_weight, v_proj_weight [H d, d_model]; PyTorch's, too
};
enum class Positions { kLearned, kRope, kNone };

struct MultiHeadAttention : Module {
  struct Options {
    std::int64_t d_model, heads;
    std::int64_t d_head = 0;  ///< 0: d_model / heads, which must divide
    AttentionForm form = AttentionForm::kPackedQKV;
    bool bias = true;
    bool causal = false;
    bool rope = false;  ///< rotate q and k by their positions
    double dropout = 0;
    DType dtype = float32;
  } options;
  Tensor in_proj_weight;                               ///< packed_qkv: rows of q, then k, then v
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  ///< separate
  Tensor in_proj_bias;                                 ///< [3 H d] in both forms, or undefined
  Linear out_proj;                                     ///< [H d] -> [d_model]

  /// ValueError naming d_model and heads if they do not divide, or a size is not positive.
  explicit MultiHeadAttention(const Options& o, Generator& g = default_generator());
  /// query [B, Tq, d_model] attends to memory [B, Tk, d_model] -> [B, Tq, d_model]. With
  /// pass.cache, which takes causal self-attention outside training, Tk counts the cached tokens,
  /// too, in the probe's shapes and in `keep`.
  Tensor forward(const Tensor& query, const Tensor& memory, const KeepMask& keep = {},
                 const Pass& pass = {}) const;
  /// Self-attention.
  Tensor operator()(const Tensor& x, const KeepMask& keep = {}, const Pass& pass = {}) const {
    return forward(x, x, keep, pass);
  }
  template <class F>
  void visit(F&& f) {
    f("in_proj_weight", in_proj_weight);
    f("q_proj_weight", q_proj_weight);
    f("k_proj_weight", k_proj_weight);
    f("v_proj_weight", v_proj_weight);
    f("in_proj_bias", in_proj_bias);
    f("out_proj", out_proj);
  }

 private:
  struct QKV {
    Tensor q, k, v;  // [B, T, H, d]
  };
  QKV project(const Tensor& query, const Tensor& memory) const;
};

}  // namespace heed::nn
