// Tests of the rounding errors of attention for scores of any size, against sums in long double.
#include "autograd/autograd.h"
#include "tests/support/attention_calls.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Int = Index;
using Real = long double;

// Results of attention, or the limits of their errors: the output and the gradients of q, k, v and
// the bias. d is 1, and the scores are exact: q times a power of two, plus a bias of 0 or, if q is
// 0, a bias.
struct Numbers {
  std::vector<Real> out, dq, dk, dv, dbias;
  Numbers(Int tq, Int tk)
      : out(std::size_t(tq)), dq(out), dk(std::size_t(tk)), dv(dk), dbias(std::size_t(tq * tk)) {}
};

// Computes the results, or the limits if eps > 0: 16 roundings of the sum of the magnitudes of the
// terms, and for each weight exp(s - max) one rounding of |s| + |max|. A weight may also differ by
// `tiny`, the smallest normal number.
Numbers exact(const std::vector<std::vector<double>>& x, Int tq, Int tk, bool causal, Real eps,
              Real tiny) {
  const auto& [q, k, v, g, bias] = std::tie(x[0], x[1], x[2], x[3], x[4]);
  Numbers n(tq, tk);
  const auto sign = [&](Real a) { return eps > 0 ? std::abs(a) : a; };
  for (std::size_t i = 0; i < std::size_t(tq); ++i) {
    const std::size_t keys = std::size_t(causal ? Int(i) + tk - tq + 1 : tk);
    std::vector<Real> p(keys), weight(keys);  // `weight`: p, or the limits of its errors
    Real top = -INFINITY, total = 0, delta = 0, spread = 0;
    const auto score = [&](std::size_t j) {
      return Real(q[i]) * Real(k[j]) + Real(bias[i * std::size_t(tk) + j]);
    };
    for (std::size_t j = 0; j < keys; ++j) top = std::max(top, score(j));
    for (std::size_t j = 0; j < keys; ++j) total += p[j] = std::exp(score(j) - top);
    for (std::size_t j = 0; j < keys; ++j) {
      p[j] /= total;
      weight[j] = eps > 0 ? p[j] * eps * (16 + std::abs(score(j)) + std::abs(top)) + tiny : p[j];
      n.out[i] += weight[j] * sign(Real(v[j]));
      n.dv[j] += weight[j] * sign(Real(g[i]));
      delta += p[j] * sign(Real(v[j]) * Real(g[i]));
      spread += weight[j] * sign(Real(v[j]) * Real(g[i]));
    }
    for (std::size_t j = 0; j < keys; ++j) {
      const Real dp = sign(Real(v[j]) * Real(g[i]));
      const Real ds = eps > 0 ? weight[j] * (dp + delta) + p[j] * spread : p[j] * (dp - delta);
      n.dbias[i * std::size_t(tk) + j] = ds;
      n.dq[i] += ds * sign(Real(k[j]));
      n.dk[j] += ds * sign(Real(q[i]));
    }
  }
  return n;
}

// Returns the number of entries whose error is above the limit.
template <class T>
int outside(bool composite, bool graph, Int tq, Int tk, bool causal, bool by_bias, double size,
            Generator& g, bool positive = false) {
  constexpr DType dtype = kDTypeOf<T>;
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
  const auto draw = [&](Int rows, Int columns) {
    return positive ? rand({rows, columns}, dtype, g) : randn({rows, columns}, dtype, g);
  };
  const Tensor q = leaf(draw(tq, 1) * (by_bias ? 0 : size)), v = leaf(draw(tk, 1));
  const Tensor sign = draw(tk, 1),
               k = leaf(where(gt(sign, 0), full({1}, 0.5, dtype), full({1}, -1, dtype)));
  const Tensor bias = leaf(draw(tq, tk) * (by_bias ? size : 0)), grad_out = draw(tq, 1);
  const AttentionOptions o{.scale = 1, .causal = causal, .bias = ScoreBias(bias)};
  const Tensor y = composite ? attention_with_weights(q, k, v, o).output : attention(q, k, v, o);
  const auto d = grad(y, {q, k, v, bias}, {.grad_output = grad_out, .create_graph = graph});
  const std::vector<std::vector<double>> x{values(q), values(k), values(v), values(grad_out),
                                           values(bias)};
  const Numbers want = exact(x, tq, tk, causal, 0, 0);
  const Numbers limit = exact(x, tq, tk, causal, Real(std::numeric_limits<T>::epsilon()) / 2,
                              Real(std::numeric_limits<T>::min()));
  int count = 0;
  const auto compare = [&](const Tensor& got, const std::vector<Real>& exact_values,
                           const std::vector<Real>& limits) {
    const std::vector<double> numbers = values(got);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      // Numbers below the smallest normal number may be 0.
      const Real most = limits[i] + Real(tk) * Real(std::numeric_limits<T>::min());
      const double error = double(std::abs(Real(numbers[i]) - exact_values[i]) / most);
      count += !(error <= 1);
    }
  };
  compare(y, want.out, limit.out), compare(d[0], want.dq, limit.dq);
  compare(d[1], want.dk, limit.dk), compare(d[2], want.dv, limit.dv);
  compare(d[3], want.dbias, limit.dbias);
  return count;
}

TEST_CASE("errors of attention are within 16 roundings of the terms, for scores 1e-30 to 1e30") {
  for_each_simd_target([] {
    Generator g(5);
    for (const auto& [tq, tk] : {std::pair<Int, Int>{5, 5}, {30, 60}, {8, 420}, {2, 1100}})
      for (const double size : {1e-30, 1e-5, 1e-2, 1.0, 10.0, 100.0, 1e30})
        for (const bool causal : {false, true})
          for (const bool by_bias : {false, true})
            for (const auto& [composite, graph] :
                 {std::pair{false, false}, {true, false}, {false, true}}) {
              if (kSanitized && (tk > 500 || causal)) continue;
              CAPTURE(tq, tk, size, causal, by_bias, composite, graph);
              CHECK(outside<float>(composite, graph, tq, tk, causal, by_bias, size, g) == 0);
              CHECK(outside<double>(composite, graph, tq, tk, causal, by_bias, size, g) == 0);
            }
  });
}

TEST_CASE("the errors of attention over up to 65,536 keys are within the same limits") {
  for_each_simd_target([] {
    Generator g(6);
    for (const Int tk : {1024, 1025, 4099, 65536})
      for (const double size : {0.0, 1.0, 10.0}) {
        if (kSanitized && tk > 5000) continue;
        CAPTURE(tk, size);
        CHECK(outside<float>(false, false, 4, tk, false, false, size, g, size != 1) == 0);
      }
  });
}

}  // namespace
