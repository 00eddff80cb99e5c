// Models and layers for tests. Their parameters are random, so that none keeps an initial value of
// 0 or 1, and every parameter affects the result.
#pragma once

#include "nn/layers/transformer.h"

namespace heed::nn::testing {

inline constexpr Positions kAllPositions[] = {Positions::kLearned, Positions::kSinusoidal,
                                              Positions::kRope, Positions::kAlibi,
                                              Positions::kNone};

/// Returns an initialized module, after adding random numbers to all of its parameters, including
/// those of biases and norms.
template <class M>
M random_module(const typename M::Options& o, std::int64_t seed = 3) {
  Generator g(seed);
  M module(o, g);
  const autograd::NoGrad guard;
  for (const NamedTensor& p : parameters(module))
    copy_(p.tensor, p.tensor + 0.3 * randn(p.tensor.shape(), p.tensor.dtype(), g));
  return module;
}
inline MultiHeadAttention random_layer(const MultiHeadAttention::Options& o) {
  return random_module<MultiHeadAttention>(o);
}
inline Transformer random_model(const Transformer::Options& o) {
  return random_module<Transformer>(o);
}

/// Options of a model, with a name that messages of tests contain.
struct NamedModel {
  std::string name;
  Transformer::Options options;
};
/// Returns variants of `base`. Each variant changes one feature of attention, norm or MLP, and some
/// also change the positions. The last variant combines most of the features.
inline std::vector<NamedModel> variant_models(const Transformer::Options& base) {
  std::vector<NamedModel> models;
  const auto add = [&](const std::string& name, auto change) {
    Transformer::Options o = base;
    change(o);
    models.push_back({name, o});
  };
  using O = Transformer::Options;
  add("shared keys",
      [](O& o) { o.attention.kv_heads = 1, o.attention.d_head = 6, o.attention.d_value = 3; });
  add("window", [](O& o) { o.attention.window = 2, o.positions = Positions::kAlibi; });
  add("QK-norm", [](O& o) { o.attention.qk_norm = true, o.positions = Positions::kRope; });
  add("soft cap", [](O& o) { o.attention.soft_cap = 0.9, o.positions = Positions::kAlibi; });
  add("RMSNorm", [](O& o) { o.norm_kind = NormKind::kRMSNorm; });
  add("SwiGLU", [](O& o) { o.activation = Activation::kSwiglu, o.mlp_ratio = 1.5; });
  add("everything", [](O& o) {
    o.attention.d_head = 6, o.attention.d_value = 3, o.attention.kv_heads = 1;
    o.attention.out_bias = false, o.norm_kind = NormKind::kRMSNorm;
    o.activation = Activation::kSwiglu, o.mlp_ratio = 1.5, o.positions = Positions::kRope;
    o.attention.scale = 0.7, o.attention.qk_norm = true, o.attention.soft_cap = 3;
    o.attention.window = 4;
  });
  return models;
}

}  // namespace heed::nn::testing
