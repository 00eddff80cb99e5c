// SIMD versions of elementwise functions on adjacent float32 values, and of dropout masks.
//
// Except for adamw(), an output array may be the same as an input array, but must not overlap it in
// any other way. The reference versions of adamw() and keep() are in reference/adamw.h and
// reference/philox.h. Those of the smooth functions are in reference/smooth.h. ../README.md lists
// the largest errors.
#pragma once

#include <cstdint>
#include <span>

#include "autograd/kernels/reference/adamw.h"
#include "autograd/kernels/reference/philox.h"

namespace heed::autograd::kernels::simd {

/// Computes y[i] = a[i] + b[i] for n values.
void add(float* y, const float* a, const float* b, Index n);

///@{
/// Computes y[i] = f(x[i]) for n values.
void exp(float* y, const float* x, Index n);
void tanh(float* y, const float* x, Index n);
///@}

/// Computes dx = g (1 - tanh(x)^2) for n values, without cancellation.
void tanh_backward(float* dx, const float* g, const float* x, Index n);

///@{
/// GELU of n values: y = x Phi(x), where Phi is the standard normal distribution function and phi
/// is its density. The backward computes dx = g (Phi(x) + x phi(x)), where g is the gradient of y.
void gelu(float* y, const float* x, Index n);
void gelu_backward(float* dx, const float* g, const float* x, Index n);
///@}

///@{
/// GELU with the tanh approximation, and SiLU. Both compute y = x s(u) for n values, where s is the
/// logistic function. gelu_tanh has u = 2 sqrt(2 / pi) (x + 0.044715 x^3), and silu has u = x. The
/// backward computes dx = g (s(u) + x s(u) (1 - s(u)) du/dx), where g is the gradient of y.
void gelu_tanh(float* y, const float* x, Index n);
void gelu_tanh_backward(float* dx, const float* g, const float* x, Index n);
void silu(float* y, const float* x, Index n);
void silu_backward(float* dx, const float* g, const float* x, Index n);
///@}

/// Sets each out[k] to 1 if the mask keeps element first + k, and otherwise to 0. The dropout
/// probability of the mask must be greater than 0.
void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out);

/// Updates n parameters p and their moments m and v in place, as reference::adamw() does. The four
/// arrays must not overlap.
void adamw(float* p, const float* g, float* m, float* v, Index n, const AdamWStep& step);

}  // namespace heed::autograd::kernels::simd
