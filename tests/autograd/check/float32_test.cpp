// Compares float32 kernels, on every SIMD target and the reference kernels, with float64. Runs the
// samples of every registered check, and shapes that cross the block boundaries of the kernels.
#include "autograd/check/float32.h"

#include "autograd/autograd.h"
#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;

void check_sample(const std::string& check, const Sample& s) {
  for (const Float32Report& r : check_float32(s.f, s.inputs, kernels::simd_targets())) {
    CAPTURE(check, s.name, r.target, r.message, r.worst);
    CHECK(r.ok);
    CHECK(r.worst <= 1);
    CHECK(r.entries >= s.inputs[0].numel());
  }
}

// Samples that are not run in float32, with the reason. All other samples are run.
const std::map<std::string, std::string> kNotInFloat32 = {
    {"to / to float64", "the function computes in float64 itself"}};

TEST_CASE("every check agrees with float64 on every target: value and gradients of both orders") {
  std::set<std::string> left_out;
  for (const Check* check : registered_checks()) {
    const std::string name(check->name());
    if (name.starts_with("test.")) continue;
    for (const Sample& s : check->samples())
      if (kNotInFloat32.contains(name + " / " + s.name))
        left_out.insert(name + " / " + s.name);
      else
        check_sample(name, s);
  }
  CHECK(left_out.size() == kNotInFloat32.size());
}

// ---- block boundaries: sizes that do not fill the last SIMD vector (a tail), and sizes larger
// than a block of the kernel or a chunk of a thread

Sample one(const std::string& name, Tensor (*f)(const Tensor&), const Tensor& x) {
  return {name, [f](Args t) { return f(t[0]); }, {x}};
}
Sample product(SampleGen& g, const Shape& a, const Shape& b) {
  return {"matmul", [](Args t) { return matmul(t[0], t[1]); }, {g.normal(a), g.normal(b)}};
}
Sample projection(SampleGen& g, Index rows, Index in, Index out) {
  return {"linear",
          [](Args t) { return linear(t[0], t[1], t[2]); },
          {g.normal({rows, in}), g.normal({out, in}), g.normal({out})}};
}
Sample attend(SampleGen& g, const Shape& lead, Index tq, Index tk, Index d,
              const AttentionOptions& options = {}, const Shape& bias = {}) {
  const auto draw = [&](Index rows) {
    Shape shape = lead;
    shape.push_back(rows), shape.push_back(d);
    return g.normal(shape);
  };
  std::vector<Tensor> inputs{draw(tq), draw(tk), draw(tk)};
  if (bias.rank() > 0) inputs.push_back(g.normal(bias));
  return {"attention",
          [options](Args t) {
            Generator fixed(7);
            AttentionOptions o = options;
            o.generator = &fixed;
            if (t.size() > 3) o.bias = ScoreBias(t[3]);
            return attention(t[0], t[1], t[2], o);
          },
          inputs};
}
Sample entropy(SampleGen& g, Index rows, Index classes, double smoothing = 0.1) {
  const Tensor targets = g.integers(0, classes, {rows});
  return {"cross_entropy",
          [=](Args t) { return cross_entropy(t[0], targets, {.label_smoothing = smoothing}); },
          {g.normal({rows, classes})}};
}
void add_norms(Samples& samples, SampleGen& g, Index rows, Index n) {
  const Tensor x = g.normal({rows, n}), w = g.normal({n}), b = g.normal({n});
  const auto layer = [](Args t) { return layer_norm(t[0], t[1], t[2]); };
  samples.push_back({"layer_norm", layer, {x, w, b}});
  samples.push_back({"rms_norm", [](Args t) { return rms_norm(t[0], t[1]); }, {x, w}});
  samples.push_back(one(
      "plain layer_norm", [](const Tensor& t) { return layer_norm(t, Tensor(), Tensor()); }, x));
  samples.push_back(one(
      "plain rms_norm", [](const Tensor& t) { return rms_norm(t, {}); }, x));
}

void add_functions(Samples& samples, SampleGen& g, const Shape& shape) {
  samples.push_back(one("exp", exp, g.normal(shape)));
  samples.push_back(one("tanh", tanh, g.normal(shape)));
  samples.push_back(one("gelu", gelu, g.normal(shape)));
  samples.push_back(one("gelu_tanh", gelu_tanh, g.normal(shape)));
  samples.push_back(one("silu", silu, g.normal(shape)));
}
void add_rows(Samples& samples, SampleGen& g, const Shape& shape) {
  const auto add = [&](const char* name, Tensor (*f)(const Tensor&)) {
    samples.push_back(one(name, f, g.normal(shape)));
  };
  add("softmax", [](const Tensor& x) { return softmax(x, -1); });
  add("softmax of columns", [](const Tensor& x) { return softmax(x, 0); });
  add("log_softmax", [](const Tensor& x) { return log_softmax(x, -1); });
  add("logsumexp", [](const Tensor& x) { return logsumexp(x, -1); });
  add("sum of columns", [](const Tensor& x) { return sum(x * x, 0); });
  add("sum of rows", [](const Tensor& x) { return sum(x * x, -1); });
}

TEST_CASE("rows of every tail agree with float64 on every target") {
  SampleGen g(31);
  Samples samples;
  for (Index n = 1; n <= 33; n += kSanitized ? 8 : 1) {
    for (const Index length : {n, n + 128}) {
      add_functions(samples, g, {length});
      add_rows(samples, g, {3, length});
      for (const double smoothing : {0.0, 0.1, 1.0})
        samples.push_back(entropy(g, 3, length, smoothing));
      add_norms(samples, g, 3, length);
    }
    samples.push_back(product(g, {5, 7}, {7, n}));  // a tail in the columns of the result
    samples.push_back(product(g, {n, 7}, {7, 5}));  // a tail in the rows of the result
    samples.push_back(product(g, {3, n}, {n, 2}));  // a tail in the inner size
    samples.push_back(attend(g, {2}, 3, n, 2, {.causal = true}));
    samples.push_back(attend(g, {2}, 2, 3, n));
  }
  for (const Sample& s : samples) check_sample("tail", s);
}

TEST_CASE("products, norms, sums and losses over a block or a chunk agree with float64") {
  // With several threads, a product whose inner size k is large is divided along k.
  const heed::autograd::testing::Threads three(3);
  SampleGen g(32);
  Samples samples;
  for (const Index k : {191, 192, 193, 383, 384, 385, 577})
    samples.push_back(product(g, {13, k}, {k, 9}));
  samples.push_back(product(g, {101, 5}, {5, 37}));        // the right operand is packed
  samples.push_back(product(g, {300, 20}, {20, 40}));      // the rows are divided among threads
  samples.push_back(product(g, {16, 600}, {600, 16}));     // k is divided among threads
  samples.push_back(product(g, {3, 2, 5, 7}, {2, 7, 9}));  // batches; the right operand broadcasts
  samples.push_back(product(g, {9, 13, 40}, {9, 40, 33}));
  samples.push_back(projection(g, 70, 200, 21));
  add_rows(samples, g, {70, 150});
  add_functions(samples, g, {2, 8200});
  samples.push_back(entropy(g, 70, 150));
  add_norms(samples, g, 70, 150), add_norms(samples, g, 150, 5);
  for (std::size_t i = 0; i < samples.size(); i += kSanitized ? 5 : 1)
    check_sample("block", samples[i]);
}

TEST_CASE("attention over more than a block of queries and of keys agrees with float64") {
  SampleGen g(33);
  const Tensor keep = g.mask({49, 100}, 0.7);
  const Samples samples = {
      attend(g, {1, 2}, 100, 5, 3),
      attend(g, {1, 1}, 3, 385, 3),
      attend(g, {2}, 6, 500, 4),  // in some rows, the largest score is in the second block of keys
      attend(g, {}, 50, 400, 5, {.causal = true}),
      attend(g, {3, 3}, 49, 7, 33, {.causal = true}),
      attend(g, {1, 2}, 49, 100, 4, {.keep = KeepMask(keep), .dropout = 0.3}, {2, 1, 100}),
      attend(g, {2}, 3, 400, 4, {.causal = true, .dropout = 0.2}, {2, 3, 400})};
  for (const Sample& s : samples) check_sample("blocks", s);
}

// ---- the check must detect errors that are in float32 only

Float32Report report_of(const DifferentiableFunction& f, const std::vector<Tensor>& inputs) {
  return check_float32(f, inputs, {kernels::simd_targets()[0]})[0];
}

// Returns x * factor if x is float32, otherwise x.
Tensor scaled_in_float32(const Tensor& x, double factor) {
  return x.dtype() == float32 ? x * factor : x;
}

TEST_CASE("an error in float32 only is found in the value, the gradient and the second order") {
  const std::vector<Tensor> x{tensor({0.7, -1.3, 2.1}, float64)};
  const auto square = [](Args t) { return t[0] * t[0]; };
  CHECK(report_of(square, x).ok);
  const Float32Report value =
      report_of([&](Args t) { return scaled_in_float32(square(t), 1.000002); }, x);
  CHECK(!value.ok);
  CHECK_THAT(value.message, Contains("value at [0]: float32 0.49"));
  CHECK_THAT(value.message, Contains("times the bound"));
  const auto with_wrong_slope = [&](Args t) {  // the value is right, but the gradient is wrong
    const Tensor y = square(t), more = scaled_in_float32(y, 1.00001) - y;
    return y + (more - more.detach());
  };
  CHECK_THAT(report_of(with_wrong_slope, x).message, Contains("gradient of input 0 at [0]"));
  const auto with_wrong_bend = [&](Args t) {  // only the second derivative is wrong
    const Tensor off = t[0] - t[0].detach();
    return square(t) + (t[0].dtype() == float32 ? off * off * 1e-4 : off * off * 0.0);
  };
  CHECK_THAT(report_of(with_wrong_bend, x).message, Contains("gradient of gradients of input 0"));
  const Float32Report nan = report_of([](Args t) { return scaled_in_float32(t[0], NAN); }, x);
  CHECK(!nan.ok);
  CHECK(!(nan.worst <= 1));
}

TEST_CASE("the bound contains the rounding of every input, with and without cancellation") {
  const auto bound = [](const Tracked& y) { return float32_bounds({y}).bound[0]; };
  const auto of = rounded_input;
  const double unit = 0x1p-24;
  CHECK(bound(of(3)) == 4 * (3 + 3) * unit);
  CHECK(bound(of(1.1f) * of(1.3f)) == Approx(4 * (2 + 1) * 1.43 * unit).epsilon(1e-6));
  // In 10000.1 * 1.0001 - 10000, the rounding error of the large product remains in the small
  // result.
  CHECK(bound(of(10000.1f) * of(1.0001f) - of(1e4)) == Approx(4 * 30000 * unit).epsilon(1e-3));
  // At an extremum of f the terms are 0, and the error of f's kernel remains.
  CHECK(bound(chain(of(-0.75), -0.17, 0)) == 4 * 0.17 * unit);
  CHECK(bound(of(0)) == std::numeric_limits<float>::min());
}

}  // namespace
