// Initial values of parameters, written in place. Random ones are PyTorch's bit for bit: the same
// generator state gives the same bits as torch.nn.init on the same shape, in row-major order.
#pragma once

#include <span>

#include "autograd/tensor/random.h"
#include "nn/layers/module.h"

// All functions take float32 or float64 leaves (DTypeError, ValueError else), with any strides.
namespace heed::nn::init {

void zeros(const Tensor& p);
void ones(const Tensor& p);
/// Uniform in [low, high).
void uniform(const Tensor& p, double low, double high, Generator& g = default_generator());
void normal(const Tensor& p, double mean, double std_dev, Generator& g = default_generator());

/// U(-x, x), x = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010). p is [out, in, ...];
/// ShapeError below rank 2.
void xavier_uniform(const Tensor& p, Generator& g = default_generator());
/// U(-x, x), x = sqrt(3) * sqrt(2 / (1 + a^2)) / sqrt(fan_in) (He et al. 2015, leaky ReLU of slope
/// a). p is [out, in, ...]; ShapeError below rank 2.
void kaiming_uniform(const Tensor& p, double a, Generator& g = default_generator());

/// Orthonormal rows (columns, if there are more rows): Q of the QR decomposition of an N(0, 1)
/// draw, R's diagonal positive (Saxe et al. 2014), as torch's but for rounding. p is [rows,
/// columns]; ShapeError else.
void orthogonal(const Tensor& p, Generator& g = default_generator());

/// Draws as torch.nn.Linear: weight [out, in] ~ kaiming_uniform(a = sqrt(5)), that is U(-w, w) with
/// w = 1/sqrt(in); then bias [out], if defined, from the same range.
void linear(const Tensor& weight, const Tensor& bias, Generator& g = default_generator());

/// GPT-2 (Radford et al. 2019; nanoGPT), by name, each parameter drawn once in the order given:
/// biases 0; norms ("...weight" of rank 1) 1; other vectors as they are; projections back into the
/// stream ("...proj.weight",
/// "...down.weight", "...W_O") N(0, 0.02 / sqrt(2 layers)); every other matrix N(0, 0.02).
void gpt2(std::span<const NamedTensor> parameters, std::int64_t layers,
          Generator& g = default_generator());

}  // namespace heed::nn::init
