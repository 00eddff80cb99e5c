// Tests of check_vjp with functions whose rounding error is large.
#include <cmath>
#include <cstddef>

#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

TEST_CASE("in float a right gradient passes even if a step seems exact by accident") {
  constexpr std::size_t kEntries = 1000;
  const Pair<float> bump = {[](const Arrays<float>& x) {
                              Arrays<float> y = x;
                              for (float& e : y[0]) e = std::tanh(e) * std::exp(-e * e / 8);
                              return y;
                            },
                            [](const Arrays<float>& x, const Arrays<float>& v) {
                              Arrays<float> g = v;
                              for (std::size_t j = 0; j < kEntries; ++j) {
                                const float e = x[0][j], t = std::tanh(e);
                                g[0][j] *= (1 - t * t - t * e / 4) * std::exp(-e * e / 8);
                              }
                              return g;
                            }};
  Arrays<float> x(1);
  for (std::size_t j = 0; j < kEntries; ++j) x[0].push_back(7 * std::sin(float(j)));
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 1 : 3); ++seed)
    CHECK(check_pair(bump, x, {.seed = seed}).ok());
}

TEST_CASE("a function whose rounding hides its gradient proves nothing") {
  const Pair<double> hidden = {
      [](const Arrays<double>& x) { return Arrays<double>{{1e20 + x[0][0]}}; },
      [](const Arrays<double>&, const Arrays<double>& v) { return Arrays<double>{{v[0][0]}}; }};
  const CheckReport report = check_pair(hidden, {{1.5}});
  CHECK(report.verdict == Verdict::kVacuous);
  CHECK(message_contains(report, "input 0: a wrong gradient (opposite sign) passes too"));
}

TEST_CASE("a zero gradient is vacuous, not right, if rounding hides it") {
  // The function is x + 1e6 in float. Differences cannot distinguish its slope 1 from 0.
  const Arrays<float> x = {{0.1F, 0.2F, -0.5F}};
  const auto plus = [](const Arrays<float>& a) {
    Arrays<float> y = a;
    for (float& e : y[0]) e += 1e6F;
    return y;
  };
  for (const float factor : {0.0F, 1.0F}) {
    const CheckReport report = check_vjp<float>(
        plus,
        [&](const Arrays<float>&, const Arrays<float>& v) {
          Arrays<float> g = v;
          for (float& e : g[0]) e *= factor;
          return g;
        },
        x);
    CAPTURE(factor, report);
    CHECK(report.verdict == Verdict::kVacuous);
    CHECK(report.digits() == 0);
    CHECK(report.checked() == 0);
  }
}

TEST_CASE("a wrong gradient that consists of noise fails") {
  const Pair<double> noisy = {kSquares.forward,
                              [](const Arrays<double>& x, const Arrays<double>& v) {
                                Arrays<double> g = kSquares.backward(x, v);
                                for (std::size_t j = 0; j < g[0].size(); ++j)
                                  g[0][j] *= std::sin(1e12 * x[0][j]);
                                return g;
                              }};
  CHECK(check_pair(noisy, {{1, 2, 3}}).verdict == Verdict::kWrong);
}

}  // namespace
