// Tests of gemm on every SIMD target. The results are compared with sums in long double, for many
// sizes, strides and batches, with bias and with accumulation. The bits of C[i, j] must depend only
// on row i of A and column j of B.

#include "autograd/base/parallel.h"
#include "autograd/kernels/simd/gemm.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using kernels::Gemm;
using std::int64_t;
using namespace testing;

// Memory layout of a matrix.
struct MatrixLayout {
  const char* name;
  int64_t row, col;  // strides
  int64_t first;     // offset of element [0, 0] from the start of the buffer
};

// Returns layouts of a [rows, cols] matrix. Each needs at most 4 * rows * cols + 64 elements.
std::vector<MatrixLayout> matrix_layouts(int64_t rows, int64_t cols) {
  return {{"row-major", cols, 1, 0},
          {"column-major", 1, rows, 0},
          {"padded rows", cols + 3, 1, 0},
          {"every other", 2 * cols, 2, 1},
          {"negative rows", -cols, 1, (rows > 0 ? rows - 1 : 0) * cols},
          {"all negative", -1, -rows, rows * cols > 0 ? rows * cols - 1 : 0}};
}

// Returns n random values in [-1, 1]. Only a float can be 1, by rounding.
template <class T>
std::vector<T> random_values(std::mt19937& random, int64_t n) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) x = T((double(random()) - 0x1p31) * 0x1p-31);
  return v;
}

// Storage order of the operands A and B of a product.
enum class StorageOrder {
  kRows,        // both operands are row-major
  kTransposed,  // both operands are transposed
  kWeight       // A is row-major and B is transposed, like x and w of linear()
};

// Value to which a product is added: 0, the bias, or the previous content of C.
enum class Start { kZero, kBias, kC };

// Multiplies A [m, k] by B [k, n], and returns element [i, j] of the product. `row` is row i of A,
// and `column` is column j of B. All other elements of A and B are constants.
template <class T>
T one_output(const std::vector<T>& row, const std::vector<T>& column, int64_t m, int64_t n,
             int64_t i, int64_t j, StorageOrder order, int64_t batch, Start start) {
  const bool a_along_k = order != StorageOrder::kTransposed,
             b_along_k = order != StorageOrder::kRows;
  const auto k = int64_t(row.size());
  std::vector<T> a(std::size_t(m * k), T(0.3)), b(std::size_t(k * n), T(0.7)),
      c(std::size_t(batch * m * n), T(0.1)), bias(std::size_t(n), T(0.1));
  for (int64_t l = 0; l < k; ++l) {
    a[std::size_t(a_along_k ? i * k + l : l * m + i)] = row[std::size_t(l)];
    b[std::size_t(b_along_k ? j * k + l : l * n + j)] = column[std::size_t(l)];
  }
  Gemm<T> g;
  g.m = m, g.n = n, g.k = k;
  g.a = a.data(), g.a_row = a_along_k ? k : 1, g.a_col = a_along_k ? 1 : m;
  g.b = b.data(), g.b_row = b_along_k ? 1 : n, g.b_col = b_along_k ? k : 1;
  g.c = c.data(), g.c_row = n, g.c_col = 1;
  g.batch[1] = batch, g.c_batch[1] = m * n;
  g.accumulate = start == Start::kC, g.bias = start == Start::kBias ? bias.data() : nullptr;
  kernels::simd::gemm(g);
  return c[std::size_t((batch - 1) * m * n + i * n + j)];
}

constexpr int64_t kSizes[] = {0, 1, 2, 5, 6, 7, 11, 12, 13, 31, 32, 33, 64, 97, 400};

std::size_t room(int64_t rows, int64_t cols) {
  return std::size_t(4 * (rows + 3) * (cols + 3) + 64);
}

// Returns the largest error of all outputs, in units of u * (|start| + sum over k of |a b|). u is
// 2^-24 for float and 2^-53 for double, and start is the bias or the old C. Returns inf if an
// element of the buffer of C that is not an output has changed.
template <class T>
double error_of(std::mt19937& random, int64_t m, int64_t n, int64_t k, const MatrixLayout& sa,
                const MatrixLayout& sb, const MatrixLayout& sc, bool bias, bool accumulate,
                int64_t batch0 = 1, int64_t batch1 = 1, bool share_b = false) {
  const int64_t batch = batch0 * batch1;
  const auto size_a = int64_t(room(m, k)), size_b = int64_t(room(k, n)),
             size_c = int64_t(room(m, n));
  const auto a = random_values<T>(random, size_a * batch),
             b = random_values<T>(random, size_b * batch);
  const auto start = random_values<T>(random, size_c * batch),
             offsets = random_values<T>(random, n);
  std::vector<T> c = start;
  Gemm<T> g;
  g.m = m, g.n = n, g.k = k;
  const auto from = [](auto& values, int64_t first) {  // an empty vector's data() may be null
    return values.empty() ? nullptr : values.data() + first;
  };
  g.a = from(a, sa.first), g.a_row = sa.row, g.a_col = sa.col;
  g.b = from(b, sb.first), g.b_row = sb.row, g.b_col = sb.col;
  g.c = from(c, sc.first), g.c_row = sc.row, g.c_col = sc.col;
  g.batch[0] = batch0, g.batch[1] = batch1;
  g.a_batch[0] = batch1 * size_a, g.a_batch[1] = size_a;
  g.b_batch[0] = share_b ? 0 : batch1 * size_b, g.b_batch[1] = share_b ? 0 : size_b;
  g.c_batch[0] = batch1 * size_c, g.c_batch[1] = size_c;
  g.bias = bias ? offsets.data() : nullptr;
  g.accumulate = accumulate;
  kernels::simd::gemm(g);

  const double u = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
  std::vector<T> expected = start;  // receives the outputs; the other elements must be unchanged
  double worst = 0;
  for (int64_t o = 0; o < batch; ++o)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = o * size_c + sc.first + i * sc.row + j * sc.col;
        long double total = accumulate ? start[std::size_t(at)]
                            : bias     ? offsets[std::size_t(j)]
                                       : T(0);
        double scale = std::abs(double(total));
        for (int64_t l = 0; l < k; ++l) {
          const long double product =
              (long double)(a[std::size_t(o * size_a + sa.first + i * sa.row + l * sa.col)]) *
              b[std::size_t((share_b ? 0 : o * size_b) + sb.first + l * sb.row + j * sb.col)];
          total += product;
          scale += std::abs(double(product));
        }
        const double e =
            std::abs(double(c[std::size_t(at)]) - double(total)) / (u * scale + 1e-300);
        if (!(e <= worst)) worst = std::isnan(e) ? HUGE_VAL : e;
        expected[std::size_t(at)] = c[std::size_t(at)];
      }
  const bool untouched =  // data() of an empty vector may be null
      c.empty() || std::memcmp(expected.data(), c.data(), c.size() * sizeof(T)) == 0;
  return untouched ? worst : HUGE_VAL;
}

// Returns the largest allowed error, in the units of error_of(). A sum of k + 1 terms has one
// rounding per term (fused multiply-add), so its error is at most k + 1 units. One more unit is
// allowed.
double allowed(int64_t k) { return double(k) + 2; }

TEMPLATE_TEST_CASE("gemm equals plain loops for every size", "", float, double) {
  using T = TestType;
  for_each_simd_target([] {
    std::mt19937 random(1);
    for (const int64_t m : kSizes)
      for (const int64_t n : kSizes)
        for (const int64_t k : kSizes) {
          // A test below multiplies larger matrices.
          if (m * n * k > (kSanitized ? 16 : 400) * 400 * 13) continue;
          const auto pick = [&](int64_t rows, int64_t cols) {
            const auto all = matrix_layouts(rows, cols);
            return all[random() % all.size()];
          };
          const MatrixLayout sa = pick(m, k), sb = pick(k, n),
                             sc = matrix_layouts(m, n)[random() % 4];
          const bool bias = random() % 2 == 0, accumulate = random() % 3 == 0 && !bias;
          CAPTURE(m, n, k, sa.name, sb.name, sc.name, bias, accumulate);
          CHECK(error_of<T>(random, m, n, k, sa, sb, sc, bias, accumulate) <= allowed(k));
        }
  });
}

TEST_CASE("gemm equals plain loops for large products, long sums and batches") {
  for_each_simd_target([] {
    std::mt19937 random(3);
    for (const bool start : {false, true}) {
      constexpr int64_t kLarge = kSanitized ? 130 : 400;
      const auto square = matrix_layouts(kLarge, kLarge);
      CHECK(error_of<float>(random, kLarge, kLarge, kLarge, square[0], square[1], square[0], start,
                            !start) <= allowed(kLarge));
      CHECK(error_of<double>(random, 97, 64, 1000, matrix_layouts(97, 1000)[1],
                             matrix_layouts(1000, 64)[4], matrix_layouts(97, 64)[2], !start,
                             start) <= 1002);
      CHECK(error_of<float>(random, 3, 5, 5000, matrix_layouts(3, 5000)[0],
                            matrix_layouts(5000, 5)[0], matrix_layouts(3, 5)[1], start,
                            !start) <= 5002);
    }
    for (const bool shared : {false, true})
      for (const auto& [b0, b1] :
           {std::pair{1, 7}, std::pair{3, 4}, std::pair{0, 3}, std::pair{5, 1}}) {
        CAPTURE(b0, b1, shared);
        CHECK(error_of<float>(random, 13, 17, 33, matrix_layouts(13, 33)[1],
                              matrix_layouts(33, 17)[0], matrix_layouts(13, 17)[0], true, false, b0,
                              b1, shared) <= allowed(33));
        CHECK(error_of<double>(random, 64, 65, 40, matrix_layouts(64, 40)[0],
                               matrix_layouts(40, 65)[4], matrix_layouts(64, 65)[1], false, true,
                               b0, b1, shared) <= allowed(40));
      }
  });
}

// Checks products of a few rows with a weight [n, k]. Generating text uses such products. The sizes
// cover every number of outputs in the last vector.
TEMPLATE_TEST_CASE("gemm of a few rows and a weight equals plain loops", "", float, double) {
  using T = TestType;
  for_each_simd_target([] {
    std::mt19937 random(5);
    for (int64_t m = 1; m <= 9; ++m)
      for (const int64_t n : {1, 3, 7, 8, 9, 31, 32, 33, 71})
        for (const int64_t k : {1, 2, 3, 4, 15, 16, 17, 191, 193, 400}) {
          const bool bias = random() % 2 == 0;
          const MatrixLayout w =
              random() % 2 == 0 ? MatrixLayout{"rows", 1, k, 0} : MatrixLayout{"far", 1, k + 3, 0};
          CAPTURE(m, n, k, w.name, bias);
          CHECK(error_of<T>(random, m, n, k, matrix_layouts(m, k)[2], w,
                            matrix_layouts(m, n)[random() % 4], bias, false) <= allowed(k));
        }
  });
}

// Checks sizes with several blocks of rows and columns and several steps of k. In the different
// cases, A is packed, is read in place, or has few rows.
TEMPLATE_TEST_CASE("gemm equals plain loops for several blocks of rows, columns and k", "", float,
                   double) {
  using T = TestType;
  for_each_simd_target([] {
    constexpr int64_t kN = 390, kK = 194;
    std::mt19937 random(6);
    for (const auto& [m, a, b, c, bias] :
         {std::tuple{int64_t{391}, 1, 0, 0, true}, std::tuple{int64_t{391}, 0, 1, 0, true},
          std::tuple{int64_t{388}, 0, 0, 1, false}, std::tuple{int64_t{65}, 1, 0, 2, false}}) {
      const auto way = [](int64_t rows, int64_t columns, int i) {
        return matrix_layouts(rows, columns)[std::size_t(i)];
      };
      CAPTURE(m, a, b, c, bias);
      CHECK(error_of<T>(random, m, kN, kK, way(m, kK, a), way(kK, kN, b), way(m, kN, c), bias,
                        !bias) <= allowed(kK));
    }
  });
}

// Checks a long k. The length of a step of k is rounded up, and as a result the steps before the
// last one already cover all of k.
TEMPLATE_TEST_CASE(
    "gemm equals plain loops if rounding up the step leaves no terms for the last step", "", float,
    double) {
  using T = TestType;
  for_each_simd_target([] {
    constexpr int64_t kM = 8, kN = 48, kK = 37055, kStep = 191;
    std::mt19937 random(7);
    const Threads restored_at_the_end;
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      // The bound has two parts: the errors of the sum within a step, and the errors of the sum
      // over the steps.
      CHECK(error_of<T>(random, kM, kN, kK, matrix_layouts(kM, kK)[1], matrix_layouts(kK, kN)[1],
                        matrix_layouts(kM, kN)[0], false,
                        false) <= allowed(kStep + kK / kStep + 1));
    }
  });
}

// Row 1 of A has a NaN, and column 2 of B has an infinity.
TEST_CASE("NaN and inf affect only their row and column") {
  for_each_simd_target([] {
    Gemm<float> g;
    std::vector<float> a(13 * 5, 1), b(5 * 33, 2), c(13 * 33);
    a[5] = NAN;
    b[33 + 2] = INFINITY;
    g.m = 13, g.n = 33, g.k = 5;
    g.a = a.data(), g.a_row = 5, g.a_col = 1;
    g.b = b.data(), g.b_row = 33, g.b_col = 1;
    g.c = c.data(), g.c_row = 33, g.c_col = 1;
    kernels::simd::gemm(g);
    for (std::size_t i = 0; i < 13; ++i)
      for (std::size_t j = 0; j < 33; ++j) {
        const float v = c[i * 33 + j];
        CHECK((i == 1 ? std::isnan(v) : j == 2 ? std::isinf(v) : v == 10));
      }
  });
}

TEMPLATE_TEST_CASE("the bits of an output do not depend on m, n, position, batch or threads", "",
                   float, double) {
  using T = TestType;
  for_each_simd_target([] {
    std::mt19937 random(4);
    const Threads restored_at_the_end;
    for (const int64_t k : {1, 7, 64, 383, 384, 385, 1000}) {
      const auto row = random_values<T>(random, k), column = random_values<T>(random, k);
      T expected_of[3];
      for (const Start start : {Start::kZero, Start::kBias, Start::kC})
        expected_of[int(start)] =
            one_output(row, column, 1, 1, 0, 0, StorageOrder::kRows, 1, start);
      for (const int threads : {1, 2, 3, 8}) {
        set_num_threads(threads);
        for (const auto& [m, n, batch] :
             {std::tuple{1, 2, 1}, std::tuple{13, 5, 1}, std::tuple{12, 64, 1},
              std::tuple{97, 33, 1}, std::tuple{400, 100, 1}, std::tuple{7, 70, 5},
              // few rows, with whole and partial vectors of columns
              std::tuple{1, 64, 1}, std::tuple{1, 301, 1}, std::tuple{2, 9, 1},
              std::tuple{3, 43, 1}, std::tuple{5, 40, 1}, std::tuple{8, 77, 1},
              std::tuple{9, 32, 1}})
          for (const StorageOrder order :
               {StorageOrder::kRows, StorageOrder::kTransposed, StorageOrder::kWeight}) {
            const int64_t i = int64_t(random() % unsigned(m)), j = int64_t(random() % unsigned(n));
            const Start start = Start(random() % 3);
            const T expected = expected_of[int(start)],
                    got = one_output(row, column, m, n, i, j, order, batch, start);
            CAPTURE(k, threads, m, n, batch, i, j, int(order), int(start), expected, got);
            CHECK((got == expected && std::signbit(got) == std::signbit(expected)));
          }
      }
    }
  });
}

}  // namespace
