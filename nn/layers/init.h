// Initializers: functions that write initial values into parameters, in place.
//
// Random values equal those of torch.nn.init bit for bit, except for orthogonal(): the same
// generator state gives the same values for the same shape, in row-major order. All functions take
// leaves of dtype float32 or float64, with any strides. They throw DTypeError for another dtype and
// ValueError for a tensor that is the result of an op.
#pragma once

#include <span>

#include "autograd/tensor/random.h"
#include "nn/layers/module.h"

/// Initializers, after torch.nn.init.
namespace heed::nn::init {

/// Sets every element to 0.
void zeros(const Tensor& p);
/// Sets every element to 1.
void ones(const Tensor& p);
/// Draws from the uniform distribution on [low, high). Throws ValueError unless low <= high.
void uniform(const Tensor& p, double low, double high, Generator& g = default_generator());
/// Draws from the normal distribution. Throws ValueError unless `mean` is finite and
/// 0 <= std_dev < infinity.
void normal(const Tensor& p, double mean, double std_dev, Generator& g = default_generator());

/// Draws from U(-x, x) with x = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010). p has shape
/// [out, in, ...]: fan_in is `in` times the product of the sizes after it, fan_out likewise with
/// `out`. Throws ShapeError if the rank is below 2.
void xavier_uniform(const Tensor& p, Generator& g = default_generator());
/// Draws from U(-x, x) with x = sqrt(3) * sqrt(2 / (1 + a^2)) / sqrt(fan_in) (He et al. 2015, for a
/// leaky ReLU of slope a). Shape, fan_in and errors are those of xavier_uniform().
void kaiming_uniform(const Tensor& p, double a, Generator& g = default_generator());

/// Writes a matrix with orthonormal rows, or orthonormal columns if p has more rows than columns
/// (Saxe et al. 2014). It is the Q of the QR decomposition of an N(0, 1) draw, where the diagonal
/// of R is positive. The result equals torch.nn.init.orthogonal_ up to rounding. Throws ShapeError
/// unless p has rank 2.
void orthogonal(const Tensor& p, Generator& g = default_generator());

/// Initializes a linear layer like torch.nn.Linear. Draws weight [out, in] with
/// kaiming_uniform(a = sqrt(5)), which is U(-w, w) with w = 1/sqrt(in). Then draws bias [out] from
/// the same range, if it is defined. Throws ShapeError if the rank of `weight` is below 2.
void linear(const Tensor& weight, const Tensor& bias, Generator& g = default_generator());

/// Initializes the parameters of a model like GPT-2 (Radford et al. 2019; nanoGPT). Each parameter
/// is drawn once, in the given order. The rule depends on its name and rank:
/// - a bias (is_bias()) is set to 0;
/// - a tensor of rank 0 or 1 whose name ends in "weight" (the gain of a norm) is set to 1;
/// - any other tensor of rank 0 or 1 is not changed;
/// - a projection into the residual stream is drawn from N(0, 0.02 / sqrt(2 layers)); its name ends
///   in "proj.weight", "down.weight" or "W_O";
/// - any other matrix is drawn from N(0, 0.02), where the second number is the standard deviation.
///
/// Throws ValueError unless `layers`, the number of blocks of the model, is above 0.
void gpt2(std::span<const NamedTensor> parameters, std::int64_t layers,
          Generator& g = default_generator());

}  // namespace heed::nn::init
