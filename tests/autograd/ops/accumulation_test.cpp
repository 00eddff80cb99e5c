// Tests of the rule for accumulation (autograd/kernels/README.md) against formulas in long double:
// sums of repeated places, values with a large common offset, and values from 1e-30 to 1e30. The
// tests use both floating dtypes, every SIMD target, plain backward passes and create_graph.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/simd_targets.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Real = long double;

// An exact entry of a result, the sum of the magnitudes of its terms, and the sum of |s| + |max|
// times each term that contains exp(s - max). For s = max, exp(s - max) is 1 and has no error.
struct Entry {
  Real value = 0, terms = 0, exps = 0;
};
using Entries = std::vector<Entry>;

// One row of inputs, the gradient g of the output, and weight and bias of a norm.
struct Row {
  std::vector<Real> x, g, w, b;
  Real roundoff;  // 2^-24 or 2^-53
  std::size_t n() const { return x.size(); }
  // Returns the sum of f(i) over the row.
  template <class F>
  Real sum(F f) const {
    Real total = 0;
    for (std::size_t i = 0; i < n(); ++i) total += f(i);
    return total;
  }
  // Returns entries e, where f(i, e) sets the members of e = entries[i].
  template <class F>
  Entries each(F f) const {
    Entries entries(n());
    for (std::size_t i = 0; i < n(); ++i) f(i, entries[i]);
    return entries;
  }
};

// Exact results for one row: the output and the gradients of x, weight and bias.
struct Exact {
  Entries y, dx, dw = {}, db = {};
};

// The softmax of a row. `log_total` is log(sum(exp(x - top))), computed without the largest term.
struct Softmax {
  std::vector<Real> p, sizes;     // sizes: |x| + |top|, or 0 where x = top and x - top is exact
  Real top, log_total, exps = 0;  // exps: Exact::exps of log_total
  explicit Softmax(const Row& r) : top(*std::max_element(r.x.begin(), r.x.end())) {
    const std::size_t k = std::size_t(std::find(r.x.begin(), r.x.end(), top) - r.x.begin());
    log_total =
        std::log1p(r.sum([&](std::size_t i) { return i == k ? 0 : std::exp(r.x[i] - top); }));
    for (const Real x : r.x) {
      p.push_back(std::exp(x - top - log_total));
      sizes.push_back(x == top ? 0 : std::abs(x) + std::abs(top));
      exps += p.back() * sizes.back();
    }
  }
};

Exact softmax_row(const Row& r) {
  const Softmax s(r);
  const Real gp = r.sum([&](auto i) { return r.g[i] * s.p[i]; });
  const Real terms = r.sum([&](auto i) { return std::abs(r.g[i]) * s.p[i]; });
  const Real exps = r.sum([&](auto i) { return std::abs(r.g[i]) * s.p[i] * s.sizes[i]; });
  return {r.each([&](auto i, Entry& e) {
            e = {s.p[i], s.p[i], s.p[i] * s.sizes[i]};
          }),
          r.each([&](auto i, Entry& e) {
            e.value = s.p[i] * (r.g[i] - gp);
            e.terms = s.p[i] * (std::abs(r.g[i]) + terms);
            e.exps = s.sizes[i] * std::abs(e.value) + s.p[i] * exps;
          })};
}

Exact log_softmax_row(const Row& r) {
  const Softmax s(r);
  const Real g = r.sum([&](auto i) { return r.g[i]; });
  const Real terms = r.sum([&](auto i) { return std::abs(r.g[i]); });
  return {r.each([&](auto i, Entry& e) {
            e = {r.x[i] - s.top - s.log_total, s.sizes[i] + s.log_total, s.exps};
          }),
          r.each([&](auto i, Entry& e) {
            e = {r.g[i] - s.p[i] * g, std::abs(r.g[i]) + s.p[i] * terms,
                 s.p[i] * std::abs(g) * s.sizes[i]};
          })};
}

Exact logsumexp_row(const Row& r) {
  const Softmax s(r);
  const Real g = r.g[0];
  return {{{s.top + s.log_total, std::abs(s.top) + s.log_total}}, r.each([&](auto i, Entry& e) {
            e.value = g * s.p[i], e.terms = std::abs(e.value), e.exps = e.terms * s.sizes[i];
          })};
}

// The target is class 0.
Exact cross_entropy_row(const Row& r, Real smoothing) {
  const Softmax s(r);
  const Real n = Real(r.n()), g = r.g[0], sure = 1 - smoothing;
  const Real below = r.sum([&](auto i) { return s.top - r.x[i]; }) / n;
  const Real sizes = r.sum([&](auto i) { return s.sizes[i]; }) / n;
  return {{{s.log_total + sure * (s.top - r.x[0]) + smoothing * below,
            s.log_total + sure * s.sizes[0] + smoothing * sizes, s.exps}},
          r.each([&](auto i, Entry& e) {
            const Real wanted = (i == 0 ? sure : 0) + smoothing / n;
            e = {g * (s.p[i] - wanted), std::abs(g) * (s.p[i] + wanted),
                 std::abs(g) * s.p[i] * s.sizes[i]};
          })};
}

// Deviations from the mean, or from 0. `terms` are the magnitudes of the terms of each deviation.
// float32 computes the mean in float64, so only the rounding of float64 remains.
struct Deviations {
  std::vector<Real> d, terms;
  Deviations(const Row& r, bool centered) {
    const Real n = Real(r.n());
    const Real mean = centered ? r.sum([&](auto i) { return r.x[i]; }) / n : 0;
    const Real size = centered ? r.sum([&](auto i) { return std::abs(r.x[i]); }) / n : 0;
    const Real part = r.roundoff == 0x1p-24L ? 0x1p-24L : 1;
    for (const Real x : r.x) {
      d.push_back(x - mean);
      terms.push_back(std::abs(d.back()) + part * (std::abs(x) + size));
    }
  }
};

Exact norm_row(const Row& r, bool centered, Real eps) {
  const Deviations v(r, centered);
  const Real n = Real(r.n());
  const Real rstd = 1 / std::sqrt(r.sum([&](auto i) { return v.d[i] * v.d[i]; }) / n + eps);
  const auto u = [&](auto i) { return v.d[i] * rstd; };
  const auto size = [&](auto i) { return v.terms[i] * rstd; };
  const auto h = [&](auto i) { return r.g[i] * r.w[i]; };
  const Real h_mean = centered ? r.sum(h) / n : 0;
  const Real h_terms = centered ? r.sum([&](auto i) { return std::abs(h(i)); }) / n : 0;
  const Real hu_mean = r.sum([&](auto i) { return h(i) * u(i); }) / n;
  const Real hu_terms = r.sum([&](auto i) { return std::abs(h(i)) * size(i); }) / n;
  Exact exact{r.each([&](auto i, Entry& e) {
                e = {u(i) * r.w[i] + (centered ? r.b[i] : 0),
                     size(i) * std::abs(r.w[i]) + std::abs(centered ? r.b[i] : 0)};
              }),
              r.each([&](auto i, Entry& e) {
                e = {rstd * (h(i) - h_mean - u(i) * hu_mean),
                     rstd * (std::abs(h(i)) + h_terms + size(i) * hu_terms)};
              }),
              r.each([&](auto i, Entry& e) {
                e = {r.g[i] * u(i), std::abs(r.g[i]) * size(i)};
              })};
  if (centered) exact.db = r.each([&](auto i, Entry& e) { e = {r.g[i], std::abs(r.g[i])}; });
  return exact;
}

Exact mean_row(const Row& r) {
  const Real n = Real(r.n());
  return {{{r.sum([&](auto i) { return r.x[i]; }) / n,
            r.sum([&](auto i) { return std::abs(r.x[i]); }) / n}},
          r.each([&](auto, Entry& e) {
            e = {r.g[0] / n, std::abs(r.g[0]) / n};
          })};
}

Exact var_row(const Row& r) {
  const Deviations v(r, true);
  const Real n = Real(r.n());
  return {{{r.sum([&](auto i) { return v.d[i] * v.d[i]; }) / n,
            r.sum([&](auto i) { return v.terms[i] * v.terms[i]; }) / n}},
          r.each([&](auto i, Entry& e) {
            e = {2 * r.g[0] * v.d[i] / n, 2 * std::abs(r.g[0]) * v.terms[i] / n};
          })};
}

// An op on the rows of t[0] [rows, n] with the weight t[1] and the bias t[2].
struct RowOp {
  const char* name;
  DifferentiableFunction f;
  std::function<Exact(const Row&)> exact;
};

std::vector<RowOp> row_ops() {
  const auto loss = [](Args t, double smoothing) {
    return cross_entropy(t[0], zeros({t[0].size(0)}, int64),
                         {.label_smoothing = smoothing, .reduction = Reduction::kNone});
  };
  std::vector<RowOp> ops = {
      {"softmax", [](Args t) { return softmax(t[0], -1); }, softmax_row},
      {"log_softmax", [](Args t) { return log_softmax(t[0], -1); }, log_softmax_row},
      {"logsumexp", [](Args t) { return logsumexp(t[0], {-1}); }, logsumexp_row},
      {"mean", [](Args t) { return mean(t[0], {-1}); }, mean_row},
      {"var", [](Args t) { return var(t[0], {-1}, {.correction = 0}); }, var_row}};
  for (const double smoothing : {0.0, 0.25})
    ops.push_back({"cross_entropy", [=](Args t) { return loss(t, smoothing); },
                   [=](const Row& r) { return cross_entropy_row(r, smoothing); }});
  for (const double eps : {0.0, 0x1p-17}) {
    ops.push_back({eps == 0 ? "layer_norm, eps 0" : "layer_norm",
                   [=](Args t) { return layer_norm(t[0], t[1], t[2], eps); },
                   [=](const Row& r) { return norm_row(r, true, eps); }});
    ops.push_back({"rms_norm", [=](Args t) { return rms_norm(t[0], t[1], eps); },
                   [=](const Row& r) { return norm_row(r, false, eps); }});
  }
  return ops;
}

std::vector<Real> row_of(const Tensor& x, Index row) {
  std::vector<Real> out;
  for (const double v : values(select(x, 0, row))) out.push_back(v);
  return out;
}

// Checks that the error of each entry is at most 16 roundings of its terms and one of its `exps`.
// Intermediate results below the smallest normal number may be 0, and results above the largest
// number are infinite.
void within(const Tensor& got, const Entries& exact, Real roundoff) {
  const bool narrow = got.dtype() == float32;
  const Real smallest =
      narrow ? Real(std::numeric_limits<float>::min()) : Real(std::numeric_limits<double>::min());
  const auto result = values(got);
  REQUIRE(result.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const Real limit = roundoff * (16 * exact[i].terms + exact[i].exps) + 8 * smallest;
    const Real expected = narrow ? Real(float(exact[i].value)) : exact[i].value;
    if (Real(result[i]) == expected || std::abs(Real(result[i]) - exact[i].value) <= limit)
      continue;
    const double ratio = double(std::abs(Real(result[i]) - exact[i].value) / limit);
    CAPTURE(i, result[i], double(exact[i].value), double(limit), ratio);
    FAIL_CHECK("the error is too large");
    return;
  }
}

// Checks values and gradients of every op for the rows x.
void check_rows(const std::string& kind, const Tensor& x64, DType dtype, bool every_target) {
  const Index rows = x64.size(0), n = x64.size(1);
  Generator random{std::uint64_t(n)};
  const auto leaf = [&](const Tensor& t) { return to(t, dtype).detach().requires_grad_(); };
  const std::vector<Tensor> in = {leaf(x64), leaf(randn({n}, float64, random)),
                                  leaf(randn({n}, float64, random))};
  const Real roundoff = dtype == float32 ? 0x1p-24L : 0x1p-53L;
  for (const RowOp& op : row_ops()) {
    // 0 / 0
    if ((n == 1 || n > 2000) && op.name == std::string("layer_norm, eps 0")) continue;
    const Shape shape = op.f(in).shape();
    const Tensor g = n > 2000 ? rand(shape, dtype, random) : randn(shape, dtype, random);
    Exact all;
    const auto append = [](Entries& to, const Entries& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    const auto add = [](Entries& to, const Entries& from) {
      to.resize(from.size());
      for (std::size_t i = 0; i < from.size(); ++i)
        to[i].value += from[i].value, to[i].terms += from[i].terms;
    };
    const Tensor g_rows = reshape(g, {rows, -1});
    for (Index r = 0; r < rows; ++r) {
      const Exact row = op.exact({row_of(in[0], r), row_of(g_rows, r), row_of(stack({in[1]}, 0), 0),
                                  row_of(stack({in[2]}, 0), 0), roundoff});
      append(all.y, row.y), append(all.dx, row.dx), add(all.dw, row.dw), add(all.db, row.db);
    }
    const auto check = [&] {
      for (const bool create_graph : {false, true}) {
        CAPTURE(op.name, kind, n, dtype, create_graph);
        const Tensor y = op.f(in);
        within(y.detach(), all.y, roundoff);
        if (op.name == std::string("softmax"))
          CHECK((min(y.detach()).item() >= 0 && max(y.detach()).item() <= 1));
        const auto d =
            grad(y, in, {.grad_output = g, .create_graph = create_graph, .allow_unused = true});
        within(d[0].detach(), all.dx, roundoff);
        if (!all.dw.empty()) within(d[1].detach(), all.dw, roundoff);
        if (!all.db.empty()) within(d[2].detach(), all.db, roundoff);
      }
    };
    if (every_target && dtype == float32) {
      for_each_simd_target(check);
      const kernels::OnSimdTarget scalar("scalar");
      check();
    } else {
      check();
    }
  }
}

TEST_CASE(
    "softmax, log_softmax, logsumexp, cross_entropy, norms, mean and var from 1e-30 to 1e30") {
  Generator random(5);
  for (const DType dtype : {float32, float64})
    for (const Index n : {1, 2, 3, 33, 300, 1100}) {
      const bool every_target = n != 300;
      for (int power = -30; power <= 30; power += kSanitized || n > 300 ? 15 : 3)
        check_rows("1e" + std::to_string(power),
                   randn({3, n}, float64, random) * std::pow(10.0, power), dtype, every_target);
      const auto drawn = [&](double from, double to) {
        return rand({3, n}, float64, random) * (to - from) + from;
      };
      for (int i = 0; i < (n > 33 ? 1 : 12); ++i) {
        const Tensor sign =
            where(gt(drawn(-1, 1), 0.0), full({}, 1, float64), full({}, -1, float64));
        check_rows("mixed powers", sign * exp(drawn(-30, 30) * std::log(10.0)), dtype,
                   every_target);
        check_rows("negative powers", -exp(drawn(-30, 5)), dtype, every_target);
        check_rows("exponents", drawn(-85, 85), dtype, every_target);
      }
      check_rows("offset", 1e4 + reshape(arange(0, 3 * double(n), 1, float64), {3, n}) * 1e-3,
                 dtype, every_target);
    }
}

// The rows have positive values, values from 3 to 4, equal values, one large value with many small
// ones, and values of both signs.
TEST_CASE("the same ops on rows of up to 65,536 elements, with positive gradients") {
  for (const Index n : {4099, kSanitized ? 4099 : 65536}) {
    Generator random(std::uint64_t(n + 1));
    const auto row = [&] { return rand({1, n}, float64, random); };
    const Tensor one_large = 0.01 * row() + 8 * to(eq(reshape(arange(n), {1, n}), 0.0), float64);
    const Tensor normal = randn({1, n}, float64, random);
    const Tensor all = cat({row(), 3 + row(), full({1, n}, 0.7, float64), one_large, normal}, 0);
    check_rows("long", n > 5000 ? slice(all, 0, 0, 2) : all, float32, true);
  }
}

TEST_CASE("means do not overflow") {
  for (const DType dtype : {float32, float64}) {
    const double largest = dtype == float32 ? double(std::numeric_limits<float>::max())
                                            : std::numeric_limits<double>::max();
    if (dtype == float32) CHECK(mean(full({5}, largest, dtype)).item() == largest);
    CHECK(mean(full({5}, largest / 8, dtype)).item() == Approx(largest / 8));
  }
}

// Sums n values v at place 1 of 3, in all ops that add at places and in gradients of ops that read.
TEST_CASE("values of repeated places are accumulated in float64, with equal bits on any threads") {
  struct Sum {
    const char* name;
    std::function<Tensor(const Tensor& ids, const Tensor& src, bool create_graph)> f;
  };
  const auto gradient = [](auto read) {
    return [read](const Tensor& ids, const Tensor& src, bool create_graph) {
      const Tensor w = zeros({3, src.size(1)}, src.dtype()).requires_grad_();
      return grad(read(w, ids), w, {.grad_output = src, .create_graph = create_graph}).detach();
    };
  };
  const auto wide = [](const Tensor& ids, const Tensor& src) {
    return expand(unsqueeze(ids, 1), src.shape());
  };
  const auto table = [](const Tensor& src) { return zeros({3, src.size(1)}, src.dtype()); };
  const std::vector<Sum> sums = {
      {"scatter_add",
       [&](auto& ids, auto& src, bool) { return scatter_add(table(src), 0, wide(ids, src), src); }},
      {"index_add", [&](auto& ids, auto& src, bool) { return index_add(table(src), 0, ids, src); }},
      {"index_add, last axis",
       [&](auto& ids, auto& src, bool) { return mT(index_add(mT(table(src)), 1, ids, mT(src))); }},
      {"embedding", gradient([](auto& w, auto& ids) { return embedding(w, ids); })},
      {"index_select", gradient([](auto& w, auto& ids) { return index_select(w, 0, ids); })},
      {"gather", gradient([&](auto& w, auto& ids) {
         return gather(w, 0, expand(unsqueeze(ids, 1), {ids.size(0), w.size(1)}));
       })}};
  const Index n = 30000;
  const Tensor ids = full({n}, 1, int64);
  for (const DType dtype : {float32, float64})
    for (const Index columns : {1, 3, 70})
      for (const Sum& sum : sums) {
        const Tensor value = full({n, columns}, 0.1, dtype);
        const double exact = double(n) * value.at({0, 0});
        for (const auto& [layout, src] :
             columns == 3 ? layouts(value) : std::vector<LayoutVariant>{{"contiguous", value}})
          for (const bool create_graph : {false, true})
            for (const int threads : {1, 2, 3, 8}) {
              const Threads use(threads);
              CAPTURE(sum.name, dtype, columns, layout, create_graph, threads);
              const Tensor got = sum.f(ids, src, create_graph);
              const double expected = dtype == float32 ? double(float(exact)) : exact;
              const double worst = max(abs(to(select(got, 0, 1), float64) - expected)).item();
              CHECK(worst <= (dtype == float32 ? 0 : exact * 1e-11));
              CHECK(max(abs(select(got, 0, 0))).item() == 0);
            }
      }
  if (skips(kSanitized, "long sums take minutes with a sanitizer")) return;
  const Index many = (1 << 24) + 1000;
  for (const Sum& sum : {sums[0], sums[1]})
    CHECK(select(sum.f(zeros({many}, int64), ones({many, 1}), false), 0, 0).item() == many);
}

}  // namespace
