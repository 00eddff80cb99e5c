#include "nn/layers/layers.h"

#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

Tensor parameter(const Shape& shape, DType dtype) { return empty(shape, dtype).requires_grad_(); }

void check_size(std::string_view layer, std::string_view option, Index value) {
  check<ValueError>(value > 0, layer, "needs ", option, " > 0, got ", value);
}

std::variant<LayerNorm, RMSNorm> norm_of(const Norm::Options& o) {
  if (o.kind == NormKind::kRMSNorm) return RMSNorm({.dim = o.dim, .dtype = o.dtype});
  return LayerNorm({.normalized_shape = o.dim, .bias = o.bias, .dtype = o.dtype});
}

Linear::Options widening(const MLP::Options& o) {
  return {.in = o.dim, .out = o.hidden ? o.hidden : 4 * o.dim, .bias = o.bias, .dtype = o.dtype};
}
Linear::Options narrowing(const MLP::Options& o) {
  const Linear::Options up = widening(o);
  return {.in = up.out, .out = up.in, .bias = o.bias, .dtype = o.dtype};
}

}  // namespace

Linear::Linear(const Options& o, Generator& g) : options(o) {
  check_size("Linear", "in", o.in);
  check_size("Linear", "out", o.out);
  weight = parameter({o.out, o.in}, o.dtype);
  if (o.bias) bias = parameter({o.out}, o.dtype);
  init::linear(weight, bias, g);
}

Embedding::Embedding(const Options& o, Generator& g) : options(o) {
  check_size("Embedding", "count", o.count);
  check_size("Embedding", "dim", o.dim);
  weight = parameter({o.count, o.dim}, o.dtype);
  init::normal(weight, 0, 1, g);
}

LayerNorm::LayerNorm(const Options& o, Generator&) : options(o) {
  check<ValueError>(o.normalized_shape.rank() > 0, "LayerNorm",
                    "needs a normalized_shape of one axis or more, got []");
  for (const Index size : o.normalized_shape) check_size("LayerNorm", "normalized_shape", size);
  if (!o.elementwise_affine) return;
  weight = ones(o.normalized_shape, o.dtype).requires_grad_();
  if (o.bias) bias = zeros(o.normalized_shape, o.dtype).requires_grad_();
}

RMSNorm::RMSNorm(const Options& o, Generator&) : options(o) {
  check_size("RMSNorm", "dim", o.dim);
  weight = ones({o.dim}, o.dtype).requires_grad_();
}

Norm::Norm(const Options& o, Generator&) : options(o), norm(norm_of(o)) {}

MLP::MLP(const Options& o, Generator& g) : options(o), up(widening(o), g), down(narrowing(o), g) {
  if (o.activation == Activation::kSwiglu) gate.emplace(widening(o), g);
}

Tensor MLP::operator()(const Tensor& x) const {
  const Tensor h = up(x);
  switch (options.activation) {
    case Activation::kGelu:
      return down(gelu(h));
    case Activation::kGeluTanh:
      return down(gelu_tanh(h));
    case Activation::kRelu:
      return down(relu(h));
    case Activation::kSilu:
      return down(silu(h));
    case Activation::kSwiglu:
      break;
  }
  return down(silu((*gate)(x)) * h);
}

}  // namespace heed::nn
