// Compares float32 with float64 for rows of 1,024 to 65,536 elements, on every SIMD target. The
// error may be at most 1e-6, except for attention over 1,024 keys. A result is compared with the
// largest magnitude of its row, and a gradient with the sum of the magnitudes of its terms, because
// terms that cancel leave their rounding errors.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;

constexpr std::int64_t kLengths[] = {1024, 1025, 1037, 4099, 65536};

// Checks that |got - exact| is at most limit * scale for every element. The scale is broadcast.
void close(std::int64_t n, const std::string& what, const Tensor& got, const Tensor& exact,
           const Tensor& scale, double limit = 1e-6) {
  const Tensor error = abs(to(got, float64) - exact);
  const double worst = max(error / (scale + 1e-300)).item();
  CAPTURE(n, what, got.shape(), worst);
  CHECK(all(le(error, limit * scale)).item() == 1);
}

// Returns the largest magnitude of each row.
Tensor largest(const Tensor& x) { return max(abs(x), {-1}, true); }
Tensor row_mean(const Tensor& x) { return mean(x, {-1}, true); }
Tensor row_sum(const Tensor& x) { return sum(x, {-1}, true); }

// An op on rows x [rows, n]. `terms` returns the sums of the magnitudes of the terms of the
// gradient with respect to x, for the gradient g of the output. All tensors are float64.
struct LongOp {
  std::string name;
  std::function<Tensor(const Tensor& x)> f;
  std::function<Tensor(const Tensor& x, const Tensor& g)> terms;
};

std::vector<LongOp> long_ops() {
  const auto softmax_terms = [](const Tensor& x, const Tensor& g) {
    const Tensor p = softmax(x, -1);
    return p * (abs(g) + row_sum(p * abs(g)));
  };
  // g of the norms is the gradient of their output without the weight.
  const auto norm_terms = [](const Tensor& centered, const Tensor& g, bool subtracts_mean) {
    const Tensor rstd = rsqrt(row_mean(centered * centered) + 1e-5);
    const Tensor u = abs(centered * rstd), h = abs(g);
    const Tensor terms = h + u * row_mean(h * u);
    return rstd * (subtracts_mean ? terms + row_mean(h) : terms);
  };
  const auto first = [](const Tensor& x) { return zeros({x.size(0)}, int64); };
  std::vector<LongOp> ops = {
      {"softmax", [](const Tensor& x) { return softmax(x, -1); }, softmax_terms},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, -1); },
       [](const Tensor& x, const Tensor& g) { return abs(g) + softmax(x, -1) * row_sum(abs(g)); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {-1}, true); },
       [](const Tensor& x, const Tensor& g) { return abs(g) * softmax(x, -1); }},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, Tensor(), Tensor()); },
       [=](const Tensor& x, const Tensor& g) { return norm_terms(x - row_mean(x), g, true); }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, Tensor()); },
       [=](const Tensor& x, const Tensor& g) { return norm_terms(x, g, false); }},
      {"sum", [](const Tensor& x) { return row_sum(x); },
       [](const Tensor& x, const Tensor& g) { return abs(g) * ones_like(x); }},
      {"mean", [](const Tensor& x) { return row_mean(x); },
       [](const Tensor& x, const Tensor& g) { return abs(g) / double(x.size(-1)) * ones_like(x); }},
      {"var", [](const Tensor& x) { return var(x, {-1}, {.keepdim = true}); },
       [](const Tensor& x, const Tensor& g) {
         return abs(g) * (2 / double(x.size(-1) - 1)) * (abs(x) + row_mean(abs(x)));
       }}};
  for (const double smoothing : {0.0, 0.1})
    ops.push_back(
        {"cross_entropy, smoothing " + std::to_string(smoothing),
         [=](const Tensor& x) {
           return unsqueeze(
               cross_entropy(x, first(x),
                             {.label_smoothing = smoothing, .reduction = Reduction::kNone}),
               -1);
         },
         [=](const Tensor& x, const Tensor& g) {
           const std::int64_t n = x.size(-1);
           const Tensor target = to(eq(reshape(arange(n), {1, n}), 0.0), float64);
           return abs(g) * (softmax(x, -1) + (1 - smoothing) * target + smoothing / double(n));
         }});
  return ops;
}

// Returns rows of n values: positive values, equal values, one large value with many small ones,
// values of both signs, and values from 3 to 4.
Tensor adversarial_rows(std::int64_t n, Generator& random) {
  const auto row = [&] { return rand({1, n}, float32, random); };
  const Tensor one_large = 0.01 * row() + 8 * to(eq(reshape(arange(n), {1, n}), 0.0), float32);
  return cat({row(), full({1, n}, 0.7), one_large, randn({1, n}, float32, random), 3 + row()}, 0);
}

TEST_CASE("rows of 1,024 to 65,536 elements have an error of at most 1e-6") {
  testing::for_each_simd_target([] {
    for (const std::int64_t n : kLengths) {
      Generator random(std::uint64_t(n + 1));
      const Tensor x = adversarial_rows(n, random).requires_grad_();
      const Tensor wide = to(x.detach(), float64).requires_grad_();
      for (const LongOp& op : long_ops()) {
        const Tensor y = op.f(x), exact = op.f(wide);
        close(n, op.name, y.detach(), exact.detach(), largest(exact.detach()));
        for (const bool positive : {true, false}) {
          const Tensor g =
              positive ? rand(y.shape(), float32, random) : randn(y.shape(), float32, random);
          const Tensor g64 = to(g, float64);
          const GradOptions keep{.retain_graph = true};
          auto options = keep, options64 = keep;
          options.grad_output = g, options64.grad_output = g64;
          close(n, op.name + (positive ? ", positive gradient" : ", gradient"), grad(y, x, options),
                grad(exact, wide, options64), op.terms(wide.detach(), g64));
        }
      }
    }
  });
}

// The queries, keys, values and gradients are positive, equal, small except for one row, or of both
// signs.
TEST_CASE("attention of 4 queries over up to 65,536 keys has an error of at most 1e-6") {
  testing::for_each_simd_target([] {
    constexpr std::int64_t kD = 8;
    for (const std::int64_t n : kLengths)
      for (const std::string& kind :
           std::vector<std::string>{"positive", "equal", "one large", "normal"}) {
        Generator random(std::uint64_t(n + 1));
        const auto rows = [&](std::int64_t count) {
          if (kind == "positive") return rand({count, kD}, float32, random);
          if (kind == "equal") return full({count, kD}, 0.7);
          const Tensor x = randn({count, kD}, float32, random);
          if (kind == "normal") return x;
          return 0.01 * abs(x) + 5 * to(eq(reshape(arange(count), {count, 1}), 2.0), float32);
        };
        std::vector<Tensor> in = {rows(4), rows(n), rows(n)}, wide;
        for (Tensor& t : in) {
          wide.push_back(to(t, float64).requires_grad_());
          t = t.detach().requires_grad_();
        }
        const Tensor out = attention(in[0], in[1], in[2]),
                     exact = attention(wide[0], wide[1], wide[2]);
        CAPTURE(n, kind);
        // Rows of up to 1,024 keys are not summed in blocks (kShortRow).
        const double limit = n > 1024 ? 1e-6 : 2.5e-6;
        close(n, "output", out.detach(), exact.detach(), largest(exact.detach()), limit);
        const Tensor g = kind == "one large" ? randn(out.shape(), float32, random) : rows(4);
        const Tensor g64 = to(g, float64);
        const auto got = grad(out, in, {.grad_output = g}),
                   expected = grad(exact, wide, {.grad_output = g64});
        const NoGrad guard;
        const double scale = 1 / std::sqrt(double(kD));
        const Tensor p = softmax(scale * matmul(wide[0], mT(wide[1])), -1);
        const Tensor dp = matmul(abs(g64), mT(abs(wide[2])));
        const Tensor ds = scale * p * (dp + row_sum(p * dp));
        close(n, "dq", got[0], expected[0], matmul(ds, abs(wide[1])), limit);
        close(n, "dk", got[1], expected[1], matmul(mT(ds), abs(wide[0])), limit);
        close(n, "dv", got[2], expected[2], matmul(mT(p), abs(g64)), limit);
      }
  });
}

}  // namespace
