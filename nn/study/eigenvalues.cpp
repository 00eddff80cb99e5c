#include "nn/study/eigenvalues.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/ops.h"

namespace heed::nn {
namespace {

using Complex = std::complex<double>;

// A square matrix, row-major.
struct SquareMatrix {
  std::size_t n;
  std::vector<Complex> values;
  Complex& operator()(std::size_t i, std::size_t j) { return values[i * n + j]; }
};

// A Givens rotation of the rows (or columns) i and i + 1.
struct Turn {
  std::size_t i;
  Complex c, s;

  // Creates the rotation of the rows i and i + 1 that sets a(i + 1, column) to 0.
  Turn(SquareMatrix& a, std::size_t row, std::size_t column) : i(row), c(1), s(0) {
    const double size = std::hypot(std::abs(a(i, column)), std::abs(a(i + 1, column)));
    if (size > 0) c = a(i, column) / size, s = a(i + 1, column) / size;
  }
  void rows(SquareMatrix& a, std::size_t first, std::size_t last) const {
    for (std::size_t j = first; j <= last; ++j) {
      const Complex x = a(i, j), y = a(i + 1, j);
      a(i, j) = std::conj(c) * x + std::conj(s) * y, a(i + 1, j) = c * y - s * x;
    }
  }
  // Applies the inverse to columns, so that rows() and columns() are a similarity transform.
  void columns(SquareMatrix& a, std::size_t first, std::size_t last) const {
    for (std::size_t j = first; j <= last; ++j) {
      const Complex x = a(j, i), y = a(j, i + 1);
      a(j, i) = x * c + y * s, a(j, i + 1) = y * std::conj(c) - x * std::conj(s);
    }
  }
};

// Returns the eigenvalue nearer to a(i, i) of the 2 x 2 block in rows and columns i - 1 and i.
Complex nearer_eigenvalue(SquareMatrix& a, std::size_t i) {
  const Complex half = (a(i - 1, i - 1) - a(i, i)) / 2.0, product = a(i - 1, i) * a(i, i - 1);
  const Complex root = std::sqrt(half * half + product);
  const Complex far = half + (std::real(std::conj(half) * root) < 0 ? -root : root);
  return far == 0.0 ? a(i, i) : a(i, i) - product / far;
}

// Computes the QR decomposition of a block of a Hessenberg matrix minus `shift`, and replaces the
// block by R Q + shift.
void qr_step(SquareMatrix& a, std::size_t first, std::size_t last, Complex shift) {
  std::vector<Turn> turns;
  for (std::size_t i = first; i <= last; ++i) a(i, i) -= shift;
  for (std::size_t k = first; k < last; ++k)
    turns.emplace_back(a, k, k), turns.back().rows(a, k, last);
  for (const Turn& turn : turns) turn.columns(a, first, turn.i + 1);
  for (std::size_t i = first; i <= last; ++i) a(i, i) += shift;
}

}  // namespace

std::vector<Complex> eigenvalues(const autograd::Tensor& matrix) {
  check(matrix.rank() == 2 && matrix.size(0) == matrix.size(1), "eigenvalues",
        "needs a square matrix, got ", matrix.shape());
  const auto values = to(matrix, autograd::float64).to_vector<double>();
  SquareMatrix a{std::size_t(matrix.size(0)), {values.begin(), values.end()}};
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  for (std::size_t k = 0; k + 2 < a.n; ++k)  // to Hessenberg form
    for (std::size_t i = a.n - 2; i > k; --i) {
      const Turn turn(a, i, k);
      turn.rows(a, k, a.n - 1), turn.columns(a, 0, a.n - 1);
    }
  std::vector<Complex> found;
  int steps = 0;
  for (std::size_t left = a.n; left > 0;) {
    const std::size_t last = left - 1;
    std::size_t first = last;  // start of the last block without a subdiagonal element near 0
    for (; first > 0; --first) {
      const double beside = std::abs(a(first, first)) + std::abs(a(first - 1, first - 1));
      const double near = std::numeric_limits<double>::epsilon() * (beside > 0 ? beside : largest);
      if (!(std::abs(a(first, first - 1)) > near)) break;
    }
    if (first == last) {
      found.push_back(a(last, last)), --left, steps = 0;
      continue;
    }
    check<autograd::NumericError>(++steps <= 300, "eigenvalues",
                                  "does not converge in 300 steps; use other weights");
    // Every tenth step uses a shift that is not an eigenvalue, because the steps may form a cycle.
    qr_step(a, first, last,
            steps % 10 == 0 ? std::abs(a(last, last - 1)) + std::abs(a(last, last))
                            : nearer_eigenvalue(a, last));
  }
  return found;
}

}  // namespace heed::nn
