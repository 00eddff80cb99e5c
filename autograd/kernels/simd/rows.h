// Rows of adjacent float32 values, on the widest SIMD this machine has. The references of the same
// names (cross_entropy.h, norm.h, reduce.h, softmax.h) are what other scalars run and what tests
// compare with; kernels.h chooses.
#pragma once

#include <cstdint>

#include "autograd/kernels/reference/cross_entropy.h"
#include "autograd/kernels/reference/norm.h"
#include "autograd/kernels/reference/reduce.h"

namespace heed::autograd::kernels::simd {

/// y = softmax(x), n values; y may be x. A row of -inf alone gives 0, one with a NaN NaN.
void softmax_row(float* y, const float* x, std::int64_t n);

/// `rows` adjacent rows of n values; moments is [rows, 2], mean and rstd. Sums run in float32
/// lanes: rows are short.
void layer_norm_moments(double* moments, const float* x, std::int64_t rows, std::int64_t n,
                        double eps);
/// y [rows, n] may be x; weight and bias [n] may each be null, for 1 and 0.
void normalize(float* y, const float* x, const double* moments, const float* weight,
               const float* bias, std::int64_t rows, std::int64_t n);
/// g is the gradient of y. to.x [rows, n] is written, to.weight and to.bias [n] are added to; to.x
/// may be null, and the other two together.
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

}  // namespace heed::autograd::kernels::simd
