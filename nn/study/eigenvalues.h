// Eigenvalues of a small real matrix that need not be symmetric.
#pragma once

#include <complex>
#include <vector>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

/// Returns the n eigenvalues of a matrix [n, n], in no particular order. Reduces the matrix to
/// Hessenberg form by Givens rotations, then applies the shifted QR algorithm in complex arithmetic
/// (Golub and Van Loan, "Matrix Computations", sections 7.4 and 7.5), which takes about 30 n^3
/// operations. Each value is exact for a matrix that differs by rounding errors of float64. If an
/// element of the matrix is not finite, the values can be NaN or infinite. Throws ShapeError unless
/// the matrix is square, and NumericError if the algorithm does not converge.
std::vector<std::complex<double>> eigenvalues(const autograd::Tensor& matrix);

}  // namespace heed::nn
