// The layers under attention: Linear, Embedding, norms, MLP. Parameters start as
// PyTorch's do, drawn from the given generator in PyTorch's order.
#pragma once

#include <optional>
#include <variant>

#include "nn/io/enum_names.h"
#include "nn/layers/module.h"

namespace heed::nn {

/// y = x W^T + b, [..., in] -> [..., out].
struct Linear : Module {
  struct Options {
    std::int64_t in, out;
    bool bias = true;
    DType dtype = float32;
  } options;
  Tensor weight;  ///< [out, in]
  Tensor bias;    ///< [out], or undefined

  explicit Linear(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
    f("bias", bias);
  }
};

/// Rows of a table, int64 ids [...] -> [..., dim].
struct Embedding : Module {
  struct Options {
    std::int64_t count, dim;
    DType dtype = float32;
  } options;
  Tensor weight;  ///< [count, dim]

  explicit Embedding(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& ids) const { return embedding(weight, ids); }
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
  }
};

/// Normalizes over the last axes to mean 0 and variance 1, then scales and shifts.
struct LayerNorm : Module {
  struct Options {
    Shape normalized_shape;  ///< of these axes; a number for the last axis alone
    double eps = 1e-5;
    bool elementwise_affine = true;  ///< false: neither weight nor bias
    bool bias = true;
    DType dtype = float32;
  } options;
  Tensor weight;  ///< of normalized_shape, starts at 1, or undefined
  Tensor bias;    ///< likewise, starts at 0

  explicit LayerNorm(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& x) const {
    return layer_norm(x, options.normalized_shape, weight, bias, options.eps);
  }
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
    f("bias", bias);
  }
};

/// Divides the last axis by its root mean square, then scales.
struct RMSNorm : Module {
  struct Options {
    std::int64_t dim;
    double eps = 1e-5;
    DType dtype = float32;
  } options;
  Tensor weight;  ///< [dim], starts at 1

  explicit RMSNorm(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& x) const { return rms_norm(x, weight, options.eps); }
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
  }
};

/// Kind of a Norm.
enum class NormKind { kLayerNorm, kRMSNorm };
template <>
struct EnumNames<NormKind> {
  static constexpr std::pair<NormKind, const char*> kTable[] = {{NormKind::kLayerNorm, "layernorm"},
                                                                {NormKind::kRMSNorm, "rmsnorm"}};
};

/// One of the two over the last axis, under their parameters' names.
struct Norm : Module {
  struct Options {
    std::int64_t dim;
    NormKind kind = NormKind::kLayerNorm;
    bool bias = true;  ///< of a LayerNorm; RMSNorm has none
    DType dtype = float32;
  } options;
  std::variant<LayerNorm, RMSNorm> norm;

  explicit Norm(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& x) const {
    return std::visit([&](const auto& n) { return n(x); }, norm);
  }
  template <class F>
  void visit(F&& f) {
    std::visit([&](auto& n) { n.visit(f); }, norm);
  }
};

/// Function between an MLP's matrices.
enum class Activation {
  kGelu,      ///< exact (Hendrycks & Gimpel 2016)
  kGeluTanh,  ///< GPT-2's approximation of it
  kRelu,
  kSilu,
  kSwiglu,  ///< silu(gate(x)) * up(x): a third matrix (Shazeer 2020)
};
template <>
struct EnumNames<Activation> {
  static constexpr std::pair<Activation, const char*> kTable[] = {
      {Activation::kGelu, "gelu"},
      {Activation::kGeluTanh, "gelu-tanh"},
      {Activation::kRelu, "relu"},
      {Activation::kSilu, "silu"},
      {Activation::kSwiglu, "swiglu"}};
};

/// down(activation(up(x))), [..., dim] -> [..., dim] through [..., hidden].
struct MLP : Module {
  struct Options {
    std::int64_t dim;
    std::int64_t hidden = 0;  ///< 0: 4 * dim
    Activation activation = Activation::kGelu;
    bool bias = true;
    DType dtype = float32;
  } options;
  Linear up, down;
  std::optional<Linear> gate;  ///< of kSwiglu

  explicit MLP(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& x) const;
  template <class F>
  void visit(F&& f) {
    f("up", up);
    f("down", down);
    if (gate) f("gate", *gate);
  }
};

}  // namespace heed::nn
