// SIMD versions of kernels on rows of adjacent float32 values. kernels.h documents the arguments.
// It chooses between these functions and the reference functions with the same names
// (reference/cross_entropy.h, norm.h, reduce.h and softmax.h).
#pragma once

#include "autograd/kernels/reference/cross_entropy.h"
#include "autograd/kernels/reference/norm.h"
#include "autograd/kernels/reference/reduce.h"

namespace heed::autograd::kernels::simd {

/// Computes y = softmax(x) for n values. If all values are -inf, y is 0. If a value is NaN, y is
/// NaN. y may be the same array as x.
void softmax_row(float* y, const float* x, Index n);

/// Writes mean and rstd of each row of x [rows, n] to moments [rows, 2], as kernels::norm_moments()
/// does.
void norm_moments(double* moments, const float* x, Index rows, Index n, double eps, bool centered);
/// Computes y = (x - mean) * rstd * weight + bias for each row of x and y [rows, n]. weight and
/// bias have n values; a null weight means 1 and a null bias means 0. y may be the same array as x.
void normalize(float* y, const float* x, const double* moments, const float* weight,
               const float* bias, Index rows, Index n);
/// Computes the gradients of normalize() from g [rows, n], the gradient of y. Writes the gradient
/// of x to to.x [rows, n] unless to.x is null. Adds the gradients of weight and bias to to.weight
/// [n] and to.bias [n] unless both are null.
void normalize_backward(const NormGrads<float>& to, const float* g, const float* x,
                        const double* moments, const float* weight, Index rows, Index n,
                        bool centered);

///@{
/// Computes cross-entropy as the reference functions do. The exponentials, their sums in blocks and
/// the gradient are computed in float32, and the rest of the loss in float64.
double cross_entropy(LogSumExp<float>& lse, const float* x, Index n, Index target,
                     double smoothing);
void cross_entropy_backward(float* dx, const float* x, Index n, Index target, double smoothing,
                            LogSumExp<float> lse, double scale);

///@}

///@{
/// Computes sums as the reference functions do, in float64. sum_of_squares() adds in a different
/// order.
void add_columns(double* out, const float* x, Index rows, Index row_stride, Index columns,
                 const Index* order = nullptr);
double sum_of_squares(const float* x, Index n);
///@}

}  // namespace heed::autograd::kernels::simd
