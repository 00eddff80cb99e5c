// Initializers: functions that write initial values into parameters, in place.
//
// Random values equal those of torch.nn.init bit for bit. Generators in equal states give equal
// values for tensors of equal shape, in row-major order, whatever the strides of the tensors are.
// All functions are for leaf tensors of dtype float32 or float64. They throw ValueError for a
// tensor that was computed by a recorded op. The functions that draw random values throw DTypeError
// for any other dtype.
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

/// Draws a matrix [out, in] from U(-x, x) with x = sqrt(6 / (in + out)) (Glorot & Bengio 2010).
/// Throws ShapeError unless p has rank 2.
void xavier_uniform(const Tensor& p, Generator& g = default_generator());

/// Initializes a linear layer like torch.nn.Linear. Draws `weight` [out, in] and then `bias` [out],
/// if it is defined, from U(-w, w) with w = 1/sqrt(in). Throws ShapeError unless `weight` has
/// rank 2.
void linear(const Tensor& weight, const Tensor& bias, Generator& g = default_generator());

/// Initializes the parameters of a model like GPT-2 (Radford et al. 2019; nanoGPT). The parameters
/// are initialized in the given order. The rule for a parameter depends on its name and rank:
/// - a bias (is_bias()) is set to 0;
/// - any other tensor of rank 0 or 1 (the gain of a norm) is set to 1;
/// - any other tensor whose name ends in "proj.weight" or "down.weight" (a projection into the
///   residual stream) is drawn from the normal distribution with mean 0 and standard deviation
///   0.02 / sqrt(2 layers);
/// - any other tensor is drawn from this distribution with standard deviation 0.02.
///
/// `layers` is the number of blocks of the model. Throws ValueError unless it is above 0.
void gpt2(std::span<const NamedTensor> parameters, Index layers,
          Generator& g = default_generator());

}  // namespace heed::nn::init
