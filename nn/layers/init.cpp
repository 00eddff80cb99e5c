// Initializers. Their formulas have the same floating-point operations as those of torch.nn.init,
// because the last bit of a bound affects the last bits of the draws (autograd/tensor/README.md).
#include "nn/layers/init.h"

#include <cmath>
#include <numeric>
#include <vector>

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

struct Fans {
  double in, out;
};
Fans fans(std::string_view op, const Tensor& p) {
  check(p.rank() >= 2, op, "needs a parameter [out, in, ...], got ", p.shape());
  double field = 1;
  for (int i = 2; i < p.rank(); ++i) field *= double(p.shape()[i]);
  return {double(p.size(1)) * field, double(p.size(0)) * field};
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
  const Fans fan = fans("xavier_uniform", p);
  if (p.numel() == 0) return;
  const double bound = std::sqrt(3.0) * std::sqrt(2.0 / (fan.in + fan.out));
  uniform(p, -bound, bound, g);
}

void kaiming_uniform(const Tensor& p, double a, Generator& g) {
  const Fans fan = fans("kaiming_uniform", p);
  if (p.numel() == 0) return;
  const double gain = std::sqrt(2.0 / (1.0 + a * a));
  const double bound = std::sqrt(3.0) * (gain / std::sqrt(fan.in));
  uniform(p, -bound, bound, g);
}

void orthogonal(const Tensor& p, Generator& g) {
  check(p.rank() == 2, "orthogonal", "needs a matrix, got ", p.shape());
  const auto rows = std::size_t(p.size(0)), columns = std::size_t(p.size(1));
  const bool tall = rows > columns;
  const std::size_t count = tall ? columns : rows, length = tall ? rows : columns;
  fill(p, [&](auto out) {
    g.normal(out, 0, 1);
    // Modified Gram-Schmidt in double precision. It returns the Q for which the diagonal of R is
    // positive.
    std::vector<std::vector<double>> basis(count, std::vector<double>(length));
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<double>& v = basis[i];
      const auto index = [&](std::size_t j) { return tall ? j * columns + i : i * columns + j; };
      for (std::size_t j = 0; j < length; ++j) v[j] = double(out[index(j)]);
      for (std::size_t b = 0; b < i; ++b) {
        const double along = std::inner_product(v.begin(), v.end(), basis[b].begin(), 0.0);
        for (std::size_t j = 0; j < length; ++j) v[j] -= along * basis[b][j];
      }
      const double norm = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
      for (std::size_t j = 0; j < length; ++j) {
        v[j] /= norm;
        out[index(j)] = typename decltype(out)::value_type(v[j]);
      }
    }
  });
}

void linear(const Tensor& weight, const Tensor& bias, Generator& g) {
  kaiming_uniform(weight, std::sqrt(5.0), g);
  if (!bias.defined()) return;
  const double in = double(weight.size(1));
  const double bound = in > 0 ? 1 / std::sqrt(in) : 0;
  uniform(bias, -bound, bound, g);
}

void gpt2(std::span<const NamedTensor> parameters, std::int64_t layers, Generator& g) {
  check<ValueError>(layers > 0, "gpt2", "needs layers > 0, got ", layers);
  for (const auto& [name, p] : parameters) {
    const std::string_view n = name;
    if (is_bias(n)) {
      zeros(p);
    } else if (p.rank() < 2) {
      if (n.ends_with("weight")) ones(p);
    } else {
      const bool residual =
          n.ends_with("proj.weight") || n.ends_with("down.weight") || n.ends_with("W_O");
      normal(p, 0, residual ? 0.02 / std::sqrt(2.0 * double(layers)) : 0.02, g);
    }
  }
}

}  // namespace heed::nn::init
