// Helpers for the tests of gemm: memory layouts of operands, and products of which a test
// compares one output element.
#pragma once

#include "autograd/kernels/simd/gemm.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

using std::int64_t;

/// Memory layout of a matrix.
struct MatrixLayout {
  const char* name;
  int64_t row, col;  // strides
  int64_t first;     // offset of element [0, 0] from the start of the buffer
};

/// Returns layouts of a [rows, cols] matrix. Each needs at most 4 * rows * cols + 64 elements.
inline std::vector<MatrixLayout> matrix_layouts(int64_t rows, int64_t cols) {
  return {{"row-major", cols, 1, 0},
          {"column-major", 1, rows, 0},
          {"padded rows", cols + 3, 1, 0},
          {"every other", 2 * cols, 2, 1},
          {"negative rows", -cols, 1, (rows > 0 ? rows - 1 : 0) * cols},
          {"all negative", -1, -rows, rows * cols > 0 ? rows * cols - 1 : 0}};
}

/// Returns n random values in [-1, 1).
template <class T>
std::vector<T> random_values(std::mt19937& random, int64_t n) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) x = T((double(random()) - 0x1p31) * 0x1p-31);
  return v;
}

/// Storage order of the operands A and B of a product.
enum class StorageOrder {
  kRows,        ///< both operands are row-major
  kTransposed,  ///< both operands are transposed
  kWeight       ///< A is row-major and B is transposed, like x and w of linear()
};

/// Value to which a product is added: 0, the bias, or the previous content of C.
enum class Start { kZero, kBias, kC };

/// Multiplies A [m, k] by B [k, n], and returns element [i, j] of the product. `row` is row i of A,
/// and `column` is column j of B. All other elements of A and B are constants.
template <class T>
T one_output(const std::vector<T>& row, const std::vector<T>& column, int64_t m, int64_t n,
             int64_t i, int64_t j, StorageOrder order, int64_t batch = 1,
             Start start = Start::kZero,
             void (*product)(const kernels::Gemm<T>&) = kernels::simd::gemm) {
  const bool a_along_k = order != StorageOrder::kTransposed,
             b_along_k = order != StorageOrder::kRows;
  const auto k = int64_t(row.size());
  std::vector<T> a(std::size_t(m * k), T(0.3)), b(std::size_t(k * n), T(0.7)),
      c(std::size_t(batch * m * n), T(0.1)), bias(std::size_t(n), T(0.1));
  for (int64_t l = 0; l < k; ++l) {
    a[std::size_t(a_along_k ? i * k + l : l * m + i)] = row[std::size_t(l)];
    b[std::size_t(b_along_k ? j * k + l : l * n + j)] = column[std::size_t(l)];
  }
  kernels::Gemm<T> g;
  g.m = m, g.n = n, g.k = k;
  g.a = a.data(), g.a_row = a_along_k ? k : 1, g.a_col = a_along_k ? 1 : m;
  g.b = b.data(), g.b_row = b_along_k ? 1 : n, g.b_col = b_along_k ? k : 1;
  g.c = c.data(), g.c_row = n, g.c_col = 1;
  g.batch[1] = batch, g.c_batch[1] = m * n;
  g.accumulate = start == Start::kC, g.bias = start == Start::kBias ? bias.data() : nullptr;
  product(g);
  return c[std::size_t((batch - 1) * m * n + i * n + j)];
}

/// Multiplies matrices with a NaN in row 1 of A and an infinity in column 2 of B. Checks that only
/// row 1 and column 2 of C are affected.
inline void check_nan_stays(void (*product)(const kernels::Gemm<float>&)) {
  std::vector<float> a(13 * 5, 1), b(5 * 33, 2), c(13 * 33);
  a[5] = NAN;
  b[33 + 2] = INFINITY;
  kernels::Gemm<float> g;
  g.m = 13, g.n = 33, g.k = 5;
  g.a = a.data(), g.a_row = 5, g.a_col = 1;
  g.b = b.data(), g.b_row = 33, g.b_col = 1;
  g.c = c.data(), g.c_row = 33, g.c_col = 1;
  product(g);
  for (std::size_t i = 0; i < 13; ++i)
    for (std::size_t j = 0; j < 33; ++j) {
      const float v = c[i * 33 + j];
      CHECK((i == 1 ? std::isnan(v) : j == 2 ? std::isinf(v) : v == 10));
    }
}

}  // namespace heed::autograd::testing
