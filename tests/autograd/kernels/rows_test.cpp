// Compares the float32 kernels on rows with the float64 references, on every SIMD target.
#include "autograd/kernels/simd/rows.h"

#include <cctype>
#include <numbers>

#include "autograd/autograd.h"
#include "autograd/check/float32.h"
#include "autograd/kernels/kernels.h"
#include "autograd/kernels/reference/smooth.h"
#include "autograd/kernels/simd/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;

using Floats = std::vector<float>;
using TrackedRow = std::vector<Tracked>;

// Converts x to numbers that count their rounding.
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
  std::int64_t n;
  Floats x, w, b, g, y;
  explicit Row(std::int64_t size) : n(size), y(std::size_t(size)) {
    Generator random{std::uint64_t(size)};
    for (Floats* v : {&x, &w, &b, &g}) {
      v->resize(std::size_t(n));
      random.normal(std::span(*v), 0, 2);
    }
  }
  // Calls kernel(y), and compares y with the values that reference(y) writes.
  template <class Kernel, class Reference>
  void check(const std::string& what, Kernel kernel, Reference reference) {
    kernel(y.data());
    TrackedRow exact(y.size());
    reference(exact.data());
    within(what, y, exact);
  }
};

// Returns F(x).
template <class F>
Tracked smooth(const Tracked& x) {
  return chain(x, F::value(real(x)), F::slope(real(x)));
}

void check_activations(Row& r) {
  using kernels::reference::Erf, kernels::reference::Tanh;
  const auto each = [&](auto f) {
    return [&r, f](Tracked* y) {
      const TrackedRow x = tracked(r.x), g = tracked(r.g);
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = f(x[i], g[i]);
    };
  };
  // The normal distribution's probability of a number below x. 1 + erf(x / sqrt(2)) would cancel.
  const auto normal = [](const Tracked& x) {
    const double v = real(x), density = std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi);
    return chain(x, 0.5 * std::erfc(-v / std::numbers::sqrt2), density);
  };
  const float* x = r.x.data();
  r.check(
      "exp", [&](float* y) { kernels::simd::exp(y, x, r.n); },
      each([](const Tracked& v, const Tracked&) { return exp(v); }));
  r.check(
      "tanh", [&](float* y) { kernels::simd::tanh(y, x, r.n); },
      each([](const Tracked& v, const Tracked&) { return smooth<Tanh>(v); }));
  r.check(
      "erf", [&](float* y) { kernels::simd::erf(y, x, r.n); },
      each([](const Tracked& v, const Tracked&) { return smooth<Erf>(v); }));
  r.check(
      "gelu", [&](float* y) { kernels::simd::gelu(y, x, r.n); },
      each([&](const Tracked& v, const Tracked&) { return v * normal(v); }));
  r.check(
      "gelu_backward", [&](float* y) { kernels::simd::gelu_backward(y, r.g.data(), x, r.n); },
      each([&](const Tracked& v, const Tracked& g) {
        const double density = 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
        return g * (normal(v) + v * exp(-0.5 * v * v) * density);
      }));
  // 0.5 (1 + tanh(u / 2)) equals 1 / (1 + e^-u). The second form has no cancellation.
  const double c = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const auto logistic = [](const Tracked& u) { return 1 / (1 + exp(-u)); };
  const auto u_of = [c](const Tracked& v) { return c * (v + 0.044715 * v * v * v); };
  r.check(
      "gelu_tanh", [&](float* y) { kernels::simd::gelu_tanh(y, x, r.n); },
      each([&](const Tracked& v, const Tracked&) { return v * logistic(u_of(v)); }));
  r.check(
      "gelu_tanh_backward",
      [&](float* y) { kernels::simd::gelu_tanh_backward(y, r.g.data(), x, r.n); },
      each([&](const Tracked& v, const Tracked& g) {
        const Tracked s = logistic(u_of(v)), rest = logistic(-u_of(v));
        return g * (s + v * s * rest * (c * (1 + 3 * 0.044715 * v * v)));
      }));
  r.check(
      "silu", [&](float* y) { kernels::simd::silu(y, x, r.n); },
      each([&](const Tracked& v, const Tracked&) { return v * logistic(v); }));
  r.check(
      "silu_backward", [&](float* y) { kernels::simd::silu_backward(y, r.g.data(), x, r.n); },
      each([&](const Tracked& v, const Tracked& g) {
        const Tracked s = logistic(v);
        return g * (s + v * s * logistic(-v));
      }));
}

// Checks two rows, so that a kernel that uses the moments of the wrong row fails.
void check_norms(const Row& r) {
  const auto n = std::size_t(r.n);
  const auto two = [](Floats first, const Floats& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Floats x = two(r.x, r.g), g = two(r.g, r.w);
  for (const bool centered : {true, false})
    for (const bool weighted : {true, false}) {
      CAPTURE(centered, weighted);
      const auto some = [&](auto& of) { return weighted ? of.data() : nullptr; };
      std::array<double, 4> moments{};
      kernels::norm_moments(moments.data(), x.data(), 2, r.n, 1e-5, centered);
      struct Inputs {
        TrackedRow x, g, w, b;
      };
      // Calls f(out, inputs, index of the first element, moments) for each of the two rows, and
      // returns `out`.
      const auto reference = [&](TrackedRow out, auto f) {
        const Inputs in{tracked(x), tracked(g), tracked(r.w), tracked(r.b)};
        for (std::size_t i = 0; i < 2; ++i)
          f(out, in, i * n,
            centered ? kernels::reference::layer_norm_moments(&in.x[i * n], r.n, 1e-5)
                     : kernels::reference::rms_norm_moments(&in.x[i * n], r.n, 1e-5));
        return out;
      };
      Floats y(2 * n);
      kernels::simd::normalize(y.data(), x.data(), moments.data(), some(r.w), some(r.b), 2, r.n);
      within("normalize", y,
             reference(TrackedRow(2 * n), [&](TrackedRow& out, const Inputs& in, std::size_t at,
                                              auto m) {
               kernels::reference::normalize(&out[at], &in.x[at], m, some(in.w), some(in.b), r.n);
             }));
      const auto backward = [&](float* to_x, float* to_w, float* to_b) {
        kernels::simd::normalize_backward({to_x, to_w, to_b}, g.data(), x.data(), moments.data(),
                                          some(r.w), 2, r.n, centered);
      };
      Floats dw = r.w, db = r.b;  // the kernel adds the gradients to these
      backward(y.data(), dw.data(), db.data());
      within("normalize_backward", y,
             reference(TrackedRow(2 * n),
                       [&](TrackedRow& out, const Inputs& in, std::size_t at, auto m) {
                         kernels::reference::normalize_backward(&out[at], &in.g[at], &in.x[at], m,
                                                                some(in.w), r.n, centered);
                       }));
      within("add_parameter_grads", two(dw, db),
             reference(tracked(two(r.w, r.b)),
                       [&](TrackedRow& out, const Inputs& in, std::size_t at, auto m) {
                         kernels::reference::add_parameter_grads(&out[0], &out[n], &in.g[at],
                                                                 &in.x[at], m, r.n);
                       }));
      // If only some of the outputs are computed, they must have the same values.
      Floats y_alone(2 * n), dw_alone = r.w, db_alone = r.b;
      backward(y_alone.data(), nullptr, nullptr);
      backward(nullptr, dw_alone.data(), db_alone.data());
      CHECK((y_alone == y && dw_alone == dw && db_alone == db));
    }
}

void check_softmaxes(Row& r) {
  r.check(
      "softmax_row", [&](float* y) { kernels::simd::softmax_row(y, r.x.data(), r.n); },
      [&](Tracked* y) { kernels::reference::softmax_row(y, 1, tracked(r.x).data(), 1, r.n); });
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    CAPTURE(smoothing);
    kernels::LogSumExp<float> lse{};
    const auto loss = float(kernels::simd::cross_entropy(lse, r.x.data(), r.n, r.n / 2, smoothing));
    const TrackedRow x = tracked(r.x);
    kernels::LogSumExp<Tracked> exact{};
    within("cross_entropy", {loss},
           {kernels::reference::cross_entropy(exact, x.data(), r.n, r.n / 2, smoothing)});
    r.check(
        "cross_entropy_backward",
        [&](float* y) {
          kernels::simd::cross_entropy_backward(y, r.x.data(), r.n, r.n / 2, smoothing, lse, 0.7);
        },
        [&](Tracked* y) {
          kernels::reference::cross_entropy_backward(y, x.data(), r.n, r.n / 2, smoothing, exact,
                                                     rounded_input(0.7));
        });
  }
}

void check_sums(Row& r) {
  Tracked total;
  for (const Tracked& v : tracked(r.x)) total += v * v;
  within("sum_of_squares", {float(kernels::simd::sum_of_squares(r.x.data(), r.n))}, {total});
  constexpr std::int64_t kRows = 3;
  const std::int64_t columns = r.n / kRows;  // up to two values at the end are not read
  std::vector<double> sums(std::size_t(columns), 0.5);
  kernels::simd::add_columns(sums.data(), r.x.data(), kRows, columns, columns);
  for (std::int64_t c = 0; c < columns; ++c) {
    double expected = 0.5;
    for (std::int64_t i = 0; i < kRows; ++i) expected += double(r.x[std::size_t(i * columns + c)]);
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
TEST_CASE("rows of every length agree with the references within rounding errors") {
  testing::for_each_simd_target([] {
    for (std::int64_t n = 1; n <= 35; n += kSanitized ? 6 : 1)
      for (const std::int64_t more : {0, 128}) {
        Row r(n + more);
        CAPTURE(r.n);
        check_activations(r), check_norms(r), check_softmaxes(r), check_sums(r), check_adamw(r);
      }
  });
}

TEST_CASE("add equals the addition of float32, also in place") {
  testing::for_each_simd_target([] {
    for (std::int64_t n = 1; n <= 35; ++n) {
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
    const testing::OnTarget here(name);
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
  const testing::OnTarget best(kernels::simd_targets().front());
  Generator random(9);
  const Tensor x = randn({3, 37}, float32, random);
  const auto row_by_row = [&](auto f) {
    Tensor y = empty(x.shape(), float32);
    for (std::int64_t r = 0; r < 3; ++r)
      f(y.mutable_data<float>() + 37 * r, x.data<float>() + 37 * r);
    return y.to_vector<float>();
  };
  const auto expected = row_by_row(
      [](float* y, const float* in) { kernels::reference::softmax_row(y, 1, in, 1, 37); });
  const auto fast =
      row_by_row([](float* y, const float* in) { kernels::simd::softmax_row(y, in, 37); });
  REQUIRE(expected != fast);
  CHECK(softmax(x, -1).to_vector<float>() == fast);
  const Tensor simd_tanh = tanh(x), simd_product = matmul(x, mT(x));
  const testing::OnTarget scalar("scalar");
  CHECK(softmax(x, -1).to_vector<float>() == expected);
  CHECK(tanh(x).to_vector<float>() == row_by_row([](float* y, const float* in) {
          for (int i = 0; i < 37; ++i) y[i] = float(std::tanh(double(in[i])));
        }));
  CHECK(tanh(x).to_vector<float>() != simd_tanh.to_vector<float>());
  CHECK(matmul(x, mT(x)).to_vector<float>() != simd_product.to_vector<float>());
}

}  // namespace
