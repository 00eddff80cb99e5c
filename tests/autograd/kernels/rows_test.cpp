// Compares the float32 kernels on rows that no op calls alone with the float64 references, on every
// SIMD target. float32_test.cpp compares the ops on rows. Also tests the choice of the target.
#include "autograd/kernels/simd/rows.h"

#include <cctype>

#include "autograd/autograd.h"
#include "autograd/check/float32.h"
#include "autograd/kernels/kernels.h"
#include "autograd/kernels/simd/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;

using Floats = std::vector<float>;
using TrackedRow = std::vector<Tracked>;

// Returns x as tracked inputs. float32_bounds() includes their rounding to float32.
TrackedRow tracked(const Floats& x) {
  TrackedRow out;
  for (const float v : x) out.push_back(rounded_input(v));
  return out;
}

// Checks that `got` differs from the exact result by at most the rounding error that is predicted
// for the reference.
void within(const std::string& what, const Floats& got, const TrackedRow& reference) {
  const Float32Bounds expected = float32_bounds(reference);
  REQUIRE(got.size() == expected.exact.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(what, i, got[i], expected.exact[i], expected.bound[i]);
    CHECK(std::abs(double(got[i]) - expected.exact[i]) <= expected.bound[i]);
  }
}

// Random inputs of n values, and an output y.
struct Row {
  Index n;
  Floats x, w, b, g, y;
  explicit Row(Index size) : n(size), y(std::size_t(size)) {
    Generator random{std::uint64_t(size)};
    for (Floats* v : {&x, &w, &b, &g}) {
      v->resize(std::size_t(n));
      random.normal(std::span(*v), 0, 2);
    }
  }
};

void check_sums(const Row& r) {
  Tracked total;
  for (const Tracked& v : tracked(r.x)) total += v * v;
  within("sum_of_squares", {float(kernels::simd::sum_of_squares(r.x.data(), r.n))}, {total});
  constexpr Index kRows = 3;
  const Index columns = r.n / kRows;  // up to two values at the end are not read
  std::vector<double> sums(std::size_t(columns), 0.5);
  kernels::simd::add_columns(sums.data(), r.x.data(), kRows, columns, columns);
  for (Index c = 0; c < columns; ++c) {
    double expected = 0.5;
    for (Index i = 0; i < kRows; ++i) expected += double(r.x[std::size_t(i * columns + c)]);
    CHECK(sums[std::size_t(c)] == expected);
  }
}

void check_adamw(const Row& r) {
  const kernels::AdamWStep step{.beta1 = 0.875,
                                .beta2 = 0.96875,
                                .eps = 0x1p-4,
                                .grad_scale = 0.375,
                                .keep = 0x1.ff8p-1,
                                .step_size = 0x1p-7,
                                .root = 0.5};
  const auto squares = [&](auto v) {
    for (auto& s : v) s = s * s;
    return v;
  };
  Floats p = r.x, m = r.w, v = squares(r.b);
  const Floats p0 = p, m0 = m, v0 = v;
  kernels::simd::adamw(p.data(), r.g.data(), m.data(), v.data(), r.n, step);
  p.insert(p.end(), m.begin(), m.end()), p.insert(p.end(), v.begin(), v.end());
  TrackedRow dp = tracked(p0), dm = tracked(m0), dv = tracked(v0);
  kernels::reference::adamw(dp.data(), tracked(r.g).data(), dm.data(), dv.data(), r.n, step);
  dp.insert(dp.end(), dm.begin(), dm.end()), dp.insert(dp.end(), dv.begin(), dv.end());
  within("adamw", p, dp);
}

// The lengths cover every size of the last vector of up to 16 lanes, with and without whole vectors
// before it.
TEST_CASE("sums and steps of AdamW of every length agree with the references") {
  testing::for_each_simd_target([] {
    for (Index n = 1; n <= 35; n += kSanitized ? 6 : 1)
      for (const Index more : {0, 128}) {
        const Row r(n + more);
        CAPTURE(r.n);
        check_sums(r), check_adamw(r);
      }
  });
}

TEST_CASE("add equals the addition of float32, also in place") {
  testing::for_each_simd_target([] {
    for (Index n = 1; n <= 35; ++n) {
      Row r(n);
      Floats expected;
      for (std::size_t i = 0; i < r.x.size(); ++i) expected.push_back(r.x[i] + r.g[i]);
      kernels::simd::add(r.y.data(), r.x.data(), r.g.data(), n);
      CHECK(r.y == expected);
      kernels::simd::add(r.x.data(), r.x.data(), r.g.data(), n);
      CHECK(r.x == expected);
    }
  });
}

TEST_CASE("a SIMD target is forced by name, and an unavailable one is an error") {
  const std::vector<std::string> names = kernels::simd_targets();
  const std::string best = kernels::simd_target();
  REQUIRE(names.size() >= 2);
  CHECK(names.back() == "scalar");
  for (const std::string& name : names) {
    const kernels::OnSimdTarget here(name);
    const std::string before = kernels::simd_target();
    std::string forced = before;
    for (char& c : forced) c = char(std::tolower(c));
    CHECK(forced == name);
    CHECK(kernels::simd_targets() == names);  // this call must not change the target
    CHECK(std::string(kernels::simd_target()) == before);
    CHECK(kernels::simd_runs() == (name != "scalar"));
  }
  CHECK(kernels::simd_target() == best);
  CHECK_THROWS_WITH(kernels::force_simd_target("abacus"),
                    Contains("SIMD target: 'abacus' is not available on this machine; choose one "
                             "of ") &&
                        Contains(" and scalar"));
  CHECK(kernels::simd_target() == best);
}

// The test uses rows whose softmax has different bits in the SIMD and the reference version,
// because the two versions use another order of summation and another exponential function.
TEST_CASE("the target 'scalar' runs the float references, also in ops") {
  const kernels::OnSimdTarget best(kernels::simd_targets().front());
  Generator random(9);
  const Tensor x = randn({3, 37}, float32, random);
  const auto row_by_row = [&](auto f) {
    Tensor y = empty(x.shape(), float32);
    for (Index r = 0; r < 3; ++r) f(y.mutable_data<float>() + 37 * r, x.data<float>() + 37 * r);
    return y.to_vector<float>();
  };
  const auto expected = row_by_row(
      [](float* y, const float* in) { kernels::reference::softmax_row(y, 1, in, 1, 37); });
  const auto fast =
      row_by_row([](float* y, const float* in) { kernels::simd::softmax_row(y, in, 37); });
  REQUIRE(expected != fast);
  CHECK(softmax(x, -1).to_vector<float>() == fast);
  const Tensor simd_tanh = tanh(x), simd_product = matmul(x, mT(x));
  const kernels::OnSimdTarget scalar("scalar");
  CHECK(softmax(x, -1).to_vector<float>() == expected);
  CHECK(tanh(x).to_vector<float>() == row_by_row([](float* y, const float* in) {
          for (int i = 0; i < 37; ++i) y[i] = float(std::tanh(double(in[i])));
        }));
  CHECK(tanh(x).to_vector<float>() != simd_tanh.to_vector<float>());
  CHECK(matmul(x, mT(x)).to_vector<float>() != simd_product.to_vector<float>());
}

}  // namespace
