#include "nn/layers/layers.h"

#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

Tensor parameter(const Shape& shape, DType dtype) { return empty(shape, dtype).requires_grad(); }

void check_size(std::string_view layer, std::string_view option, std::int64_t value) {
  check<ValueError>(value > 0, layer, "needs ", option, " > 0, got ", value);
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
  for (const std::int64_t size : o.normalized_shape)
    check_size("LayerNorm", "normalized_shape", size);
  if (!o.elementwise_affine) return;
  weight = ones(o.normalized_shape, o.dtype).requires_grad();
  if (o.bias) bias = zeros(o.normalized_shape, o.dtype).requires_grad();
}

RMSNorm::RMSNorm(const Options& o, Generator&) : options(o) {
  check_size("RMSNorm", "dim", o.dim);
  weight = ones({o.dim}, o.dtype).requires_grad();
}

namespace {
std::int64_t hidden_size(const MLP::Options& o) { return o.hidden ? o.hidden : 4 * o.dim; }
}  // namespace

MLP::MLP(const Options& o, Generator& g)
    : options(o),
      up({.in = o.dim, .out = hidden_size(o), .bias = o.bias, .dtype = o.dtype}, g),
      down({.in = hidden_size(o), .out = o.dim, .bias = o.bias, .dtype = o.dtype}, g) {}

}  // namespace heed::nn
