// Maps over adjacent float32 values, and dropout's random decisions, on the widest SIMD this
// machine has. Elsewhere the same functions are std's and functors of autograd/ops/elementwise, and
// those of reference/adamw.h and philox.h.
#pragma once

#include <cstdint>
#include <span>

#include "autograd/kernels/reference/adamw.h"
#include "autograd/kernels/reference/philox.h"

namespace heed::autograd::kernels::simd {

/// y = a + b for n values; y may be one of them.
void add(float* y, const float* a, const float* b, std::int64_t n);
/// y[i] = f(x[i]) for n values; y may be x. Largest errors over all floats: README.md.
void exp(float* y, const float* x, std::int64_t n);
void tanh(float* y, const float* x, std::int64_t n);
void erf(float* y, const float* x, std::int64_t n);
/// y = x Phi(x); dx = g (Phi(x) + x phi(x)).
void gelu(float* y, const float* x, std::int64_t n);
void gelu_backward(float* dx, const float* g, const float* x, std::int64_t n);
/// y = x s(u), dx = g (s(u) + x s(u) (1 - s(u)) u'), s the logistic function: u = 2 sqrt(2 / pi)
/// (x + 0.044715 x^3) and u = x.
void gelu_tanh(float* y, const float* x, std::int64_t n);
void gelu_tanh_backward(float* dx, const float* g, const float* x, std::int64_t n);
void silu(float* y, const float* x, std::int64_t n);
void silu_backward(float* dx, const float* g, const float* x, std::int64_t n);

/// out[k] = mask.keep(first + k) as 0 or 1, for a mask of p > 0.
void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out);

/// As the reference.
void adamw(float* p, const float* g, float* m, float* v, std::int64_t n, const AdamWStep& step);

}  // namespace heed::autograd::kernels::simd
