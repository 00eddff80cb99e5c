// Tests of gemm_bf16() with every implementation (way) that this machine supports. The results are
// compared with sums in long double. The bits of C[i, j] must depend only on row i of A and column
// j of B.
#include "autograd/kernels/simd/gemm_bf16.h"

#include <bit>
#include <cfloat>

#include "autograd/autograd.h"
#include "autograd/kernels/kernels.h"
#include "tests/support/bf16_ways.h"
#include "tests/support/catch.h"
#include "tests/support/gemms.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using kernels::Gemm;
using kernels::rounded_to_bfloat16;
using std::int64_t;
using namespace testing;

using Floats = std::vector<float>;

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// Returns the bfloat16 that is nearest to x. If two bfloat16 are equally near, returns the one
// whose last bit is 0.
float nearest_bfloat16(float x) {
  const std::uint32_t below = bits_of(x) & 0xffff0000u;  // x rounded toward 0
  const auto low = std::bit_cast<float>(below), high = std::bit_cast<float>(below + 0x10000u);
  // If `high` is infinite, 2^128 is used instead. It would be the next number after the largest
  // finite bfloat16.
  const double top = std::isinf(high) ? std::copysign(0x1p128, double(x)) : double(high);
  const double to_low = std::abs(double(x) - double(low)), to_high = std::abs(top - double(x));
  if (to_low != to_high) return to_low < to_high ? low : high;
  return (below >> 16) % 2 == 0 ? low : high;
}

// Returns numbers that test the rounding: zeros, ties, limits and random numbers.
Floats hard_to_round() {
  Floats list = {0.0f,         -0.0f,          1.0f,      1 + 0x1p-8f, 1 + 0x1p-7f,
                 1 + 0x3p-8f,  1 + 0x1.01p-8f, -3.14159f, FLT_MAX,     -FLT_MAX,
                 0x1.fe8p127f, 0x1.fefp127f,   FLT_MIN,   INFINITY,    -INFINITY};
  std::mt19937 random(5);
  while (list.size() < 4000) {
    const auto x = std::bit_cast<float>(std::uint32_t(random()));
    if (std::isnormal(x)) list.push_back(x);
  }
  return list;
}

TEST_CASE("a float is rounded to the nearest bfloat16, ties to even, and NaN stays NaN") {
  for (const float x : hard_to_round()) {
    CAPTURE(x);
    CHECK(bits_of(rounded_to_bfloat16(x)) == bits_of(std::isinf(x) ? x : nearest_bfloat16(x)));
  }
  CHECK(rounded_to_bfloat16(1 + 0x1p-8f) == 1);
  CHECK(rounded_to_bfloat16(1 + 0x3p-8f) == 1 + 0x1p-6f);
  CHECK(std::isinf(rounded_to_bfloat16(FLT_MAX)));
  for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff80ffffu})
    CHECK(std::isnan(rounded_to_bfloat16(std::bit_cast<float>(nan))));
}

// Multiplies all numbers x by 1 in a product with k = 1, once as A [m, 1] and once as B [1, n]. The
// result of each product is then the rounded x.
TEST_CASE("every way rounds both operands to the nearest bfloat16") {
  for_each_bf16_way([] {
    Floats x = hard_to_round();
    x.push_back(std::bit_cast<float>(0x7f800001u));
    const float one = 1;
    for (const bool left : {true, false}) {
      Floats c(x.size());
      Gemm<float> g;
      g.m = left ? int64_t(x.size()) : 1, g.n = left ? 1 : int64_t(x.size()), g.k = 1;
      g.a = left ? x.data() : &one, g.b = left ? &one : x.data();
      g.a_row = g.a_col = g.b_row = g.b_col = 1;
      g.c = c.data(), g.c_row = g.n, g.c_col = 1;
      kernels::gemm_bf16(g);
      for (std::size_t i = 0; i < x.size(); ++i) {
        CAPTURE(left, x[i], c[i]);
        CHECK((std::isnan(x[i]) ? std::isnan(c[i]) : c[i] == rounded_to_bfloat16(x[i])));
      }
    }
  });
}

// The largest |error| / bound over all outputs of a product. `rounded` measures the error against
// the exact product of the rounded operands, and `whole` against the exact product of the operands
// themselves.
//
// The bounds use r = 2^-8 (the largest relative error of rounding to bfloat16), S = sum over k of
// |a b| and u = 2^-24. A product of two bfloat16 is exact in float32. An output has at most k + 1
// rounded additions. Each has an error of at most u times the partial sum. The partial sum is at
// most S (1 + r)^2 plus the absolute value of the start value (the bias or the old C). Numbers that
// are flushed to 0 are below 2^-126.
struct Errors {
  double rounded = 0, whole = 0;
  bool untouched = true;  // false if memory between the outputs was written
};
Errors errors_of(std::mt19937& random, int64_t m, int64_t n, int64_t k, const MatrixLayout& la,
                 const MatrixLayout& lb, Start start) {
  const auto room = [](int64_t rows, int64_t cols) { return 4 * (rows + 3) * (cols + 3); };
  const Floats a = random_values<float>(random, room(m, k)),
               b = random_values<float>(random, room(k, n));
  const int64_t c_row = n + 5;
  const Floats before = random_values<float>(random, m * c_row),
               bias = random_values<float>(random, n);
  Floats c = before;
  Gemm<float> g;
  g.m = m, g.n = n, g.k = k;
  g.a = a.data() + la.first, g.a_row = la.row, g.a_col = la.col;
  g.b = b.data() + lb.first, g.b_row = lb.row, g.b_col = lb.col;
  g.c = c.data(), g.c_row = c_row, g.c_col = 1;
  g.bias = start == Start::kBias ? bias.data() : nullptr;
  g.accumulate = start == Start::kC;
  kernels::gemm_bf16(g);
  Errors e;
  const double r = 0x1p-8, u = 0x1p-24;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < c_row; ++j) {
      const auto at = std::size_t(i * c_row + j);
      if (j >= n) {
        e.untouched = e.untouched && c[at] == before[at];
        continue;
      }
      const double from = start == Start::kBias ? double(bias[std::size_t(j)])
                          : start == Start::kC  ? double(before[at])
                                                : 0;
      long double rounded = from, whole = from;
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const float x = g.a[i * la.row + l * la.col], y = g.b[l * lb.row + j * lb.col];
        rounded += (long double)(rounded_to_bfloat16(x)) * rounded_to_bfloat16(y);
        whole += (long double)(x)*y;
        sum += std::abs(double(x) * double(y));
      }
      const double additions =
          double(k + 1) * u * (sum * (1 + r) * (1 + r) + std::abs(from)) + 0x1p-126;
      const auto worse = [&](double& worst, long double exact, double bound) {
        const double error = std::abs(double(c[at] - exact)) / bound;
        if (!(error <= worst)) worst = std::isnan(error) ? HUGE_VAL : error;
      };
      worse(e.rounded, rounded, additions);
      worse(e.whole, whole, additions + (2 * r + r * r) * sum);
    }
  return e;
}

void check_product(std::mt19937& random, int64_t m, int64_t n, int64_t k) {
  const auto all_a = matrix_layouts(m, k), all_b = matrix_layouts(k, n);
  const MatrixLayout &la = all_a[random() % all_a.size()], &lb = all_b[random() % all_b.size()];
  const auto start = Start(random() % 3);
  const Errors e = errors_of(random, m, n, k, la, lb, start);
  CAPTURE(m, n, k, la.name, lb.name, int(start), e.rounded, e.whole);
  CHECK(e.rounded <= 1);
  CHECK(e.whole <= 1);
  CHECK(e.untouched);
}

TEST_CASE("gemm_bf16 agrees with long double for every size and way") {
  for_each_bf16_way([] {
    std::mt19937 random(6);
    for (const int64_t m : {1, 2, 15, 16, 17, 33, 64})
      for (const int64_t n : {1, 2, 15, 16, 17, 33, 64})
        for (const int64_t k : {1, 2, 15, 16, 31, 32, 33, 70}) check_product(random, m, n, k);
    for (const int64_t k : {511, 512, 513, 544, 1100}) check_product(random, 19, 35, k);
    check_product(random, 300, 40, 64);  // gemm_bf16 packs fewer than 300 rows at a time
    check_product(random, 5, 600, 40);
  });
}

TEST_CASE("gemm_bf16 accepts every layout of both operands") {
  for_each_bf16_way([] {
    std::mt19937 random(7);
    for (const MatrixLayout& la : matrix_layouts(18, 37))
      for (const MatrixLayout& lb : matrix_layouts(37, 21)) {
        const Errors e = errors_of(random, 18, 21, 37, la, lb, Start::kZero);
        CAPTURE(la.name, lb.name, e.rounded);
        CHECK(e.rounded <= 1);
      }
  });
}

TEST_CASE("the error of rounding the operands is at most its bound and above 5 % of it") {
  std::mt19937 random(8);
  const Errors e = errors_of(random, 20, 20, 40, matrix_layouts(20, 40)[0],
                             matrix_layouts(40, 20)[0], Start::kZero);
  CHECK(e.whole > 0.05);
  CHECK(e.whole <= 1);
}

TEST_CASE("NaN and inf affect only their row and column of gemm_bf16") {
  for_each_bf16_way([] { check_nan_stays(kernels::gemm_bf16); });
}

float one_rounded_output(const Floats& row, const Floats& column, int64_t m, int64_t n, int64_t i,
                         int64_t j, bool transposed) {
  return one_output(row, column, m, n, i, j,
                    transposed ? StorageOrder::kTransposed : StorageOrder::kRows, 1, Start::kZero,
                    kernels::gemm_bf16);
}

TEST_CASE("gemm_bf16: the bits of an output do not depend on m, n, position or threads") {
  const Threads restored_at_the_end;
  for_each_bf16_way([] {
    std::mt19937 random(9);
    for (const int64_t k : {1, 7, 64, 511, 513, 1000}) {
      const Floats row = random_values<float>(random, k), column = random_values<float>(random, k);
      const float expected = one_rounded_output(row, column, 1, 1, 0, 0, false);
      for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        for (const auto& [m, n] : {std::pair{1, 2}, std::pair{13, 5}, std::pair{12, 64},
                                   std::pair{97, 33}, std::pair{600, 100}, std::pair{40, 700}})
          for (const bool transposed : {false, true}) {
            const int64_t i = int64_t(random() % unsigned(m)), j = int64_t(random() % unsigned(n));
            const float got = one_rounded_output(row, column, m, n, i, j, transposed);
            CAPTURE(k, threads, m, n, i, j, transposed, expected, got);
            CHECK(bits_of(got) == bits_of(expected));
          }
      }
    }
  });
}

TEST_CASE("a way is forced by name, and all ways give different sums") {
  std::set<float> sums;
  std::mt19937 random(10);
  const Floats row = random_values<float>(random, 2000),
               column = random_values<float>(random, 2000);
  for_each_bf16_way([&] { sums.insert(one_rounded_output(row, column, 3, 3, 1, 1, false)); });
  // Each implementation adds in a different order, so two of the sums of 2000 terms are equal only
  // by chance.
  CHECK(sums.size() == kernels::bf16_ways().size());
  CHECK_THROWS_WITH(kernels::force_bf16_way("amd"),
                    Contains("'amd' is not available on this machine; choose one of"));
  for (const std::string& target : kernels::simd_targets()) {
    const testing::OnTarget here(target);
    CAPTURE(target);
    CHECK((target == "avx3" ? kernels::bf16_ways()[0] : "portable") == kernels::bf16_way());
  }
}

TEST_CASE("gemm_bf16 is within its error bound on every SIMD target") {
  for (const std::string& target : kernels::simd_targets()) {
    const testing::OnTarget here(target);
    CAPTURE(target);
    std::mt19937 random(11);
    for (const int64_t k : {3, 40, 600}) check_product(random, 21, 34, k);
  }
}

TEST_CASE("gemm_bf16 computes empty products and rejects batches and strided columns of C") {
  Floats c(6, 3);
  const float bias[] = {1, 2, 4};
  Gemm<float> g;
  g.m = 2, g.n = 3, g.k = 0;
  g.c = c.data(), g.c_row = 3, g.c_col = 1;
  g.bias = bias;
  kernels::gemm_bf16(g);
  CHECK(c == Floats{1, 2, 4, 1, 2, 4});
  g.m = 0;
  kernels::gemm_bf16(g);
  g.batch[1] = 2;
  CHECK_THROWS_AS(kernels::gemm_bf16(g), ValueError);
  g.batch[1] = 1, g.c_col = 2;
  CHECK_THROWS_AS(kernels::gemm_bf16(g), ValueError);
}

}  // namespace
