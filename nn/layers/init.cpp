// Initializers. Their formulas have the same floating-point operations as those of torch.nn.init,
// because the last bit of a bound affects the last bits of the draws (autograd/tensor/README.md).
#include "nn/layers/init.h"

#include <cmath>

namespace heed::nn::init {

using namespace autograd;

namespace {

// Calls draw(values) with new row-major memory, and copies the values to p. Thus the values do not
// depend on the strides of p.
template <class Draw>
void fill(const Tensor& p, Draw draw) {
  const NoGrad guard;
  Tensor values = empty(p.shape(), p.dtype());
  dispatch_parameter(
      p, [&]<class T> { draw(std::span(values.mutable_data<T>(), std::size_t(p.numel()))); });
  copy_(p, values);
}

void check_is_matrix(std::string_view op, const Tensor& p) {
  check(p.rank() == 2, op, "needs a matrix [out, in], got ", p.shape());
}

}  // namespace

void zeros(const Tensor& p) {
  const NoGrad guard;
  fill_(p, 0);
}

void ones(const Tensor& p) {
  const NoGrad guard;
  fill_(p, 1);
}

void uniform(const Tensor& p, double low, double high, Generator& g) {
  fill(p, [&](auto out) { g.uniform(out, low, high); });
}

void normal(const Tensor& p, double mean, double std_dev, Generator& g) {
  fill(p, [&](auto out) { g.normal(out, mean, std_dev); });
}

void xavier_uniform(const Tensor& p, Generator& g) {
  check_is_matrix("xavier_uniform", p);
  if (p.numel() == 0) return;
  const double bound = std::sqrt(3.0) * std::sqrt(2.0 / double(p.size(1) + p.size(0)));
  uniform(p, -bound, bound, g);
}

void linear(const Tensor& weight, const Tensor& bias, Generator& g) {
  check_is_matrix("linear", weight);
  const double in = double(weight.size(1));
  // PyTorch computes the bound of the weight as that of He et al. (2015) for a leaky ReLU with
  // slope sqrt(5), which rounds differently.
  const double slope = std::sqrt(5.0), gain = std::sqrt(2.0 / (1.0 + slope * slope));
  if (weight.numel() > 0) {
    const double bound = std::sqrt(3.0) * (gain / std::sqrt(in));
    uniform(weight, -bound, bound, g);
  }
  if (!bias.defined()) return;
  const double bound = in > 0 ? 1 / std::sqrt(in) : 0;
  uniform(bias, -bound, bound, g);
}

void gpt2(std::span<const NamedTensor> parameters, Index layers, Generator& g) {
  check<ValueError>(layers > 0, "gpt2", "needs layers > 0, got ", layers);
  for (const auto& [name, p] : parameters) {
    const std::string_view n = name;
    if (is_bias(n)) {
      zeros(p);
    } else if (p.rank() < 2) {
      ones(p);
    } else {
      const bool residual = n.ends_with("proj.weight") || n.ends_with("down.weight");
      normal(p, 0, residual ? 0.02 / std::sqrt(2.0 * double(layers)) : 0.02, g);
    }
  }
}

}  // namespace heed::nn::init
