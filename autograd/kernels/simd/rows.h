// Rows of adjacent float32 values, on the widest SIMD this machine has. The references of the same
// names (adamw.h, cross_entropy.h, norm.h, reduce.h, softmax.h) are what other scalars run and what
// tests compare with; kernels.h chooses.
#pragma once

#include <cstdint>

#include "autograd/kernels/reference/adamw.h"
#include "autograd/kernels/reference/cross_entropy.h"
#include "autograd/kernels/reference/norm.h"
#include "autograd/kernels/reference/reduce.h"

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

void softmax_row(float* y, const float* x, std::int64_t n);

/// `rows` adjacent rows of n values; moments is [rows, 2], mean and rstd. Sums run in float32
/// lanes: rows are short.
void layer_norm_moments(double* moments, const float* x, std::int64_t rows, std::int64_t n,
                        double eps);
void normalize(float* y, const float* x, const double* moments, const float* weight,
               const float* bias, std::int64_t rows, std::int64_t n);
void normalize_backward(const NormGrads<float>& to, const float* g, const float* x,
                        const double* moments, const float* weight, std::int64_t rows,
                        std::int64_t n, bool centered);

/// As the references, with exponentials in float32.
double cross_entropy(LogSumExp<float>& lse, const float* x, std::int64_t n, std::int64_t target,
                     double smoothing);
void cross_entropy_backward(float* dx, const float* x, std::int64_t n, std::int64_t target,
                            double smoothing, LogSumExp<float> lse, double scale);

/// As the references, accumulating in float64.
void add_columns(double* out, const float* x, std::int64_t rows, std::int64_t row_stride,
                 std::int64_t columns);
double sum_of_squares(const float* x, std::int64_t n);

/// As the reference.
void adamw(float* p, const float* g, float* m, float* v, std::int64_t n, const AdamWStep& step);

}  // namespace heed::autograd::kernels::simd
