// Basic layers: Linear, Embedding, LayerNorm, RMSNorm, Norm and MLP.
//
// These rules hold for all layers of this file. The parameters have the dtype of the options, which
// must be float32 or float64. The constructors draw the parameters from `g`, with the distributions
// and in the order of PyTorch. They throw ValueError unless all sizes are above 0, and DTypeError
// for another dtype. The input of a call must have the dtype of the parameters. A call throws
// ShapeError or DTypeError if its input does not fit. Results are differentiable.
#pragma once

#include <optional>
#include <variant>

#include "nn/io/enum_names.h"
#include "nn/layers/module.h"

namespace heed::nn {

/// Linear layer (torch.nn.Linear).
struct Linear : Module {
  /// Options of a Linear.
  struct Options {
    Index in;               ///< size of the last axis of the input
    Index out;              ///< size of the last axis of the result
    bool bias = true;       ///< false: the layer has no bias
    DType dtype = float32;  ///< dtype of the parameters
  } options;                ///< options given to the constructor
  Tensor weight;            ///< shape [out, in]
  Tensor bias;              ///< shape [out]; undefined if the layer has no bias

  /// Draws weight and bias with init::linear().
  explicit Linear(const Options& o, Generator& g = default_generator());
  /// Returns x W^T + b of shape [..., out] for x of shape [..., in].
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
  /// Calls f(name, parameter) for `weight` and `bias`.
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
    f("bias", bias);
  }
};

/// Table of vectors, which are selected by integer ids (torch.nn.Embedding).
struct Embedding : Module {
  /// Options of an Embedding.
  struct Options {
    Index count;            ///< number of rows; ids are in [0, count)
    Index dim;              ///< size of a row
    DType dtype = float32;  ///< dtype of the parameter
  } options;                ///< options given to the constructor
  Tensor weight;            ///< shape [count, dim]

  /// Draws the table from N(0, 1).
  explicit Embedding(const Options& o, Generator& g = default_generator());
  /// Returns the rows of the table at `ids`: shape [..., dim] for int64 ids of shape [...]. Throws
  /// ValueError if an id is outside [0, count).
  Tensor operator()(const Tensor& ids) const { return embedding(weight, ids); }
  /// Calls f(name, parameter) for `weight`.
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
  }
};

/// Layer normalization (Ba et al. 2016; torch.nn.LayerNorm). Normalizes over the last axes to mean
/// 0 and variance 1, then multiplies by the weight and adds the bias.
struct LayerNorm : Module {
  /// Options of a LayerNorm.
  struct Options {
    /// Sizes of the normalized axes, which are the last ones. A single number means the last axis.
    Shape normalized_shape;
    double eps = 1e-5;               ///< added to the variance
    bool elementwise_affine = true;  ///< false: the layer has neither weight nor bias
    bool bias = true;                ///< false: the layer has no bias
    DType dtype = float32;           ///< dtype of the parameters
  } options;                         ///< options given to the constructor
  Tensor weight;                     ///< shape normalized_shape, initially 1; may be undefined
  Tensor bias;                       ///< shape normalized_shape, initially 0; may be undefined

  /// Makes the parameters; nothing is drawn from the generator.
  explicit LayerNorm(const Options& o, Generator& g = default_generator());
  /// Returns the normalized x, which has the shape of x. The last axes of x must have the sizes in
  /// normalized_shape.
  Tensor operator()(const Tensor& x) const {
    return layer_norm(x, options.normalized_shape, weight, bias, options.eps);
  }
  /// Calls f(name, parameter) for `weight` and `bias`.
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
    f("bias", bias);
  }
};

/// Root-mean-square normalization (Zhang & Sennrich 2019). Divides the last axis by its root mean
/// square, then multiplies by the weight.
struct RMSNorm : Module {
  /// Options of an RMSNorm.
  struct Options {
    Index dim;              ///< size of the last axis
    double eps = 1e-5;      ///< added to the mean square
    DType dtype = float32;  ///< dtype of the parameter
  } options;                ///< options given to the constructor
  Tensor weight;            ///< shape [dim], initially 1

  /// Makes the parameter; nothing is drawn from the generator.
  explicit RMSNorm(const Options& o, Generator& g = default_generator());
  /// Returns the normalized x, shape [..., dim], for x of shape [..., dim].
  Tensor operator()(const Tensor& x) const { return rms_norm(x, weight, options.eps); }
  /// Calls f(name, parameter) for `weight`.
  template <class F>
  void visit(F&& f) {
    f("weight", weight);
  }
};

/// Kind of a Norm.
enum class NormKind {
  kLayerNorm,  ///< LayerNorm
  kRMSNorm     ///< RMSNorm
};
template <>
inline constexpr auto kEnumNames<NormKind> = std::to_array({"layernorm", "rmsnorm"});

/// LayerNorm or RMSNorm over the last axis, selected by an option. The names of the parameters are
/// those of the selected layer.
struct Norm : Module {
  /// Options of a Norm.
  struct Options {
    Index dim;                             ///< size of the last axis
    NormKind kind = NormKind::kLayerNorm;  ///< selected layer
    bool bias = true;                      ///< bias of a LayerNorm; an RMSNorm never has one
    DType dtype = float32;                 ///< dtype of the parameters
  } options;                               ///< options given to the constructor
  std::variant<LayerNorm, RMSNorm> norm;   ///< selected layer

  /// Makes the parameters; nothing is drawn from the generator.
  explicit Norm(const Options& o, Generator& g = default_generator());
  /// Returns the normalized x, shape [..., dim], for x of shape [..., dim].
  Tensor operator()(const Tensor& x) const {
    return std::visit([&](const auto& n) { return n(x); }, norm);
  }
  /// Calls f(name, parameter) for the parameters of `norm`.
  template <class F>
  void visit(F&& f) {
    std::visit([&](auto& n) { n.visit(f); }, norm);
  }
};

/// Activation function of an MLP.
enum class Activation {
  kGelu,      ///< exact GELU (Hendrycks & Gimpel 2016)
  kGeluTanh,  ///< the tanh approximation of GELU, as in GPT-2
  kRelu,      ///< max(x, 0)
  kSilu,      ///< x * sigmoid(x)
  kSwiglu,    ///< silu(gate(x)) * up(x), with a third matrix `gate` (Shazeer 2020)
};
template <>
inline constexpr auto kEnumNames<Activation> = std::to_array({"gelu", "gelu-tanh", "relu", "silu",
                                                              "swiglu"});

/// MLP of two linear layers, or of three with Activation::kSwiglu.
struct MLP : Module {
  /// Options of an MLP.
  struct Options {
    Index dim;                                  ///< size of the last axis of input and result
    Index hidden = 0;                           ///< width between the layers; 0 means 4 * dim
    Activation activation = Activation::kGelu;  ///< applied between the layers
    bool bias = true;                           ///< true: all linear layers have a bias
    DType dtype = float32;                      ///< dtype of the parameters
  } options;                                    ///< options given to the constructor
  Linear up;                   ///< layer with weight [hidden, dim], before the activation
  Linear down;                 ///< layer with weight [dim, hidden], after the activation
  std::optional<Linear> gate;  ///< layer with weight [hidden, dim]; only with kSwiglu

  /// Draws the parameters of up, down and gate, in this order.
  explicit MLP(const Options& o, Generator& g = default_generator());
  /// Returns down(activation(up(x))), shape [..., dim], for x of shape [..., dim]. With kSwiglu,
  /// returns down(silu(gate(x)) * up(x)).
  Tensor operator()(const Tensor& x) const;
  /// Calls f(name, child) for each of the two or three linear layers.
  template <class F>
  void visit(F&& f) {
    f("up", up);
    f("down", down);
    if (gate) f("gate", *gate);
  }
};

}  // namespace heed::nn
