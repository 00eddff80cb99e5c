// Tests of optimizers, which are compared with plain loops and closed forms, and of clipping, state
// and errors.
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using Values = std::vector<double>;

Values values(const Tensor& x) { return to(x.detach(), float64).to_vector<double>(); }

NamedTensor leaf(const std::string& name, const Tensor& x) { return {name, x.requires_grad_()}; }

// Sets the gradient of a parameter.
void set_grad(const NamedTensor& p, const Tensor& gradient) {
  p.tensor.zero_grad();
  backward(sum(p.tensor * gradient));
}

// AdamW for one element, written like the paper (Loshchilov & Hutter 2019).
struct ReferenceAdamW {
  double p, lr, decay, b1 = 0.9, b2 = 0.999, eps = 1e-8, m = 0, v = 0;
  int t = 0;
  void step(double g) {
    ++t;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double m_hat = m / (1 - std::pow(b1, t)), v_hat = v / (1 - std::pow(b2, t));
    p = p - lr * decay * p - lr * m_hat / (std::sqrt(v_hat) + eps);
  }
};

TEST_CASE("AdamW equals the formulas of the paper for each parameter") {
  const DType dtype = GENERATE(float32, float64);
  Generator g(1);
  const NamedTensor a = leaf("a", randn({3, 5}, dtype, g)), b = leaf("b", randn({4}, dtype, g));
  std::map<std::string, std::vector<ReferenceAdamW>> expected;
  for (const double x : values(a.tensor)) expected["a"].push_back({x, 0.01, 0.1, 0.8, 0.95, 1e-3});
  for (const double x : values(b.tensor)) expected["b"].push_back({x, 0.01, 0, 0.8, 0.95, 1e-3});
  AdamW adam(decay_groups({a, b}, 0.1), {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3});
  for (int step = 0; step < 12; ++step) {
    const double lr = 0.01 * (step + 1);
    adam.zero_grad();
    for (const NamedTensor& p : {a, b}) {
      if (p.name == "b" && step % 3 == 1) continue;  // without a gradient, b keeps its step count
      const Tensor gradient = randn(p.tensor.shape(), dtype, g) * std::pow(10.0, step % 4 - 3);
      set_grad(p, gradient);
      const Values values_of_g = values(gradient);
      for (std::size_t i = 0; i < values_of_g.size(); ++i) {
        expected[p.name][i].lr = lr;
        expected[p.name][i].step(values_of_g[i]);
      }
    }
    adam.step({.lr = lr});
  }
  for (const NamedTensor& p : {a, b}) {
    const Values got = values(p.tensor);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(std::abs(got[i] - expected[p.name][i].p) <= (dtype == float64 ? 1e-14 : 2e-6));
  }
}

TEST_CASE("SGD with momentum equals the closed form") {
  const NamedTensor p = leaf("p", zeros({1}, float64));
  SGD sgd({{{p}}}, {.momentum = 0.9});
  for (int step = 0; step < 10; ++step) {
    set_grad(p, tensor({3}, float64));
    sgd.step({.lr = 0.01});
  }
  double expected = 0;  // after n steps, the buffer is 3 (1 - 0.9^n) / (1 - 0.9)
  for (int n = 1; n <= 10; ++n) expected -= 0.01 * 3 * (1 - std::pow(0.9, n)) / (1 - 0.9);
  CHECK(values(p.tensor)[0] == Approx(expected).epsilon(1e-13));
}

TEST_CASE("SGD adds the weight decay to the gradient") {
  const NamedTensor p = leaf("p", tensor({4, -8}));
  SGD sgd({{{p}, 0.5}});
  set_grad(p, tensor({1, 2}));
  sgd.step({.lr = 0.25});
  CHECK(values(p.tensor) == Values{4 - 0.25 * (1 + 2), -8 - 0.25 * (2 - 4)});
  CHECK(sgd.state().size() == 1);  // without momentum, the state has no buffer
}

TEST_CASE("steps accept gradients with any strides") {
  const NamedTensor p = leaf("p", zeros({2, 3}));
  SGD sgd({{{p}}});
  backward(sum(p.tensor));  // the gradient is a 1 that is expanded with stride 0
  sgd.step({.lr = 1});
  CHECK(values(p.tensor) == Values(6, -1));
  sgd.zero_grad();
  CHECK(!p.tensor.grad().defined());
  backward(sum(transpose(p.tensor, 0, 1) * tensor({{1, 2}, {3, 4}, {5, 6}})));
  sgd.step({.lr = 1});
  CHECK(values(p.tensor) == Values{-2, -4, -6, -3, -5, -7});
}

TEST_CASE("after a step, a backward pass with values saved before it throws") {
  const NamedTensor p = leaf("p", tensor({1, 2}));
  SGD sgd({{{p}}});
  const Tensor loss = sum(p.tensor * p.tensor);
  set_grad(p, tensor({1, 1}));
  sgd.step({.lr = 0.1});
  CHECK_THROWS_WITH(backward(loss), Contains("in place"));
}

TEST_CASE("optimizers and clipping give the same bits at any thread count") {
  std::vector<std::vector<float>> results;
  std::vector<double> norms;
  const heed::autograd::testing::Threads restored_at_the_end;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    Generator g(4);
    const NamedTensor p = leaf("p", randn({333, 301}, float32, g)), q = leaf("q", randn({7}));
    AdamW adam({{{p, q}, 0.1}});
    SGD sgd({{{p, q}, 0.1}}, {.momentum = 0.9});
    for (int step = 0; step < 3; ++step) {
      set_grad(p, randn(p.tensor.shape(), float32, g));
      norms.push_back(adam.step({.lr = 0.1, .clip_norm = 1}));
      sgd.step({.lr = 0.1});
    }
    results.push_back(p.tensor.to_vector<float>());
  }
  for (std::size_t i = 1; i < results.size(); ++i) CHECK(results[i] == results[0]);
  for (std::size_t i = 3; i < norms.size(); ++i) CHECK(norms[i] == norms[i % 3]);
}

// resume_test.cpp loads the state into a new optimizer.
TEST_CASE("the state of AdamW has a step and two moments of each parameter") {
  const NamedTensor p = leaf("w", ones({2}));
  std::string names;
  for (const NamedTensor& s : AdamW({{{p}}}).state()) names += s.name + " ";
  CHECK(names == "w.step w.exp_avg w.exp_avg_sq ");
}

// Returns the clipped gradient that a step used. If a parameter was 0 before a step of SGD with lr
// 1, this gradient is the negative of its new value.
Values clipped_grad(const NamedTensor& p) {
  Values moved = values(p.tensor);
  for (double& x : moved) x = 0 - x;
  return moved;
}

TEST_CASE("steps clip to the global norm like PyTorch and do not change .grad") {
  const DType dtype = GENERATE(float32, float64);
  const auto check_step = [&](double clip_norm, auto check_grads) {
    const NamedTensor a = leaf("a", zeros({2}, dtype)), b = leaf("b", zeros({2, 2}, dtype)),
                      none = leaf("none", zeros({3}, dtype));
    set_grad(a, tensor({3, 0}, dtype));
    set_grad(b, tensor({{0, 4}, {0, 0}}, dtype));
    SGD sgd({{{a, b, none}}});
    CHECK(sgd.step({.lr = 1, .clip_norm = clip_norm}) == 5);
    CHECK(values(a.tensor.grad()) == Values{3, 0});
    check_grads(clipped_grad(a), clipped_grad(b));
  };
  const double tolerance = dtype == float32 ? 1e-6 : 1e-15;
  check_step(2.5, [&](const Values& a, const Values& b) {
    CHECK(std::abs(a[0] - 3 * 2.5 / (5 + 1e-6)) <= tolerance);
    CHECK(std::abs(b[1] - 4 * 2.5 / (5 + 1e-6)) <= tolerance);
  });
  for (const double enough : {5.1, kInf})
    check_step(enough, [](const Values& a, const Values& b) {
      CHECK(a == Values{3, 0});
      CHECK(b == Values{0, 4, 0, 0});
    });
  SGD nothing({{{leaf("none", zeros({3}, dtype))}}});
  CHECK(nothing.step({.lr = 1, .clip_norm = 1}) == 0);
}

TEST_CASE("AdamW clips its gradients before it uses them") {
  const auto run = [](double scale, double clip_norm) {
    const NamedTensor p = leaf("p", ones({70}));
    AdamW adam({{{p}, 0.1}});
    Generator g(3);
    for (int i = 0; i < 3; ++i) {
      set_grad(p, randn({70}, float32, g) * scale);
      adam.step({.lr = 0.01, .clip_norm = clip_norm});
    }
    return values(p.tensor);
  };
  // The first run clips a norm of about 8000 to 1e-3. The second has tiny gradients and no
  // clipping.
  const Values clipped = run(1000, 1e-3), small = run(1e-12, kInf);
  CHECK(clipped != small);
  CHECK(run(2, 1e-3) != run(2, kInf));
  const Values twice = run(2000, 1e-3);
  for (std::size_t i = 0; i < clipped.size(); ++i)
    CHECK(std::abs(clipped[i] - twice[i]) <= 1e-6);  // after clipping, only the direction matters
}

TEST_CASE("the norm of gradients is accumulated in float64") {
  const NamedTensor p = leaf("p", zeros({100000}));
  SGD sgd({{{p}}});
  set_grad(p, full({100000}, 1e-3f));
  CHECK(sgd.step({.lr = 0}) == Approx(double(1e-3f) * std::sqrt(1e5)).epsilon(1e-13));
  set_grad(p, full({100000}, 1e30f));  // the square of 1e30 overflows float32
  CHECK(sgd.step({.lr = 1, .clip_norm = 1}) ==
        Approx(double(1e30f) * std::sqrt(1e5)).epsilon(1e-13));
  CHECK(clipped_grad(p)[7] == Approx(1 / std::sqrt(1e5)));
}

TEST_CASE("clipping scales a shared gradient once and does not change what hooks received") {
  const NamedTensor a = leaf("a", zeros({4})), b = leaf("b", zeros({4}));
  const Tensor y = a.tensor + b.tensor;
  Tensor received;
  y.register_hook([&](const Tensor& g) {
    received = g;
    return Tensor();
  });
  backward(sum(y * full({4}, 8)));
  SGD sgd({{{a, b}}});
  const double norm = sgd.step({.lr = 1, .clip_norm = 1});
  CHECK(norm == Approx(8 * std::sqrt(8.0)));
  for (const NamedTensor& p : {a, b}) CHECK(clipped_grad(p)[0] == Approx(8 / norm).epsilon(1e-6));
  CHECK(values(received) == Values(4, 8));
}

TEST_CASE("a step with a non-finite gradient names it and changes nothing") {
  const NamedTensor a = leaf("a", zeros({2})), b = leaf("blocks.0.proj.weight", zeros({2, 3})),
                    c = leaf("c", zeros({1}));
  set_grad(a, tensor({1, 1}));
  set_grad(b, tensor({{0, 0, 0}, {0, std::nan(""), 0}}));
  set_grad(c, tensor({kInf}));
  AdamW all({{{a, b, c}}}), two({{{a, c}}});
  CHECK_THROWS_WITH(all.step({.lr = 0.1}),
                    Contains("blocks.0.proj.weight [2, 3] is nan at [1, 1]"));
  CHECK_THROWS_WITH(two.step({.lr = 0.1, .clip_norm = 1}), Contains("c [1] is inf at [0]"));
  CHECK(values(a.tensor) == Values{0, 0});
  CHECK(all.state()[0].tensor.item() == 0);
  const NamedTensor large = leaf("large", zeros({1}, float64));
  set_grad(large, tensor({1e300}, float64));
  CHECK_THROWS_AS(SGD({{{large}}}).step({.lr = 1}), NumericError);
  for (const double bad : {0.0, -1.0, std::nan("")})
    CHECK_THROWS_AS(SGD({{{a}}}).step({.lr = 1, .clip_norm = bad}), ValueError);
}

TEST_CASE("the error of an update that would be non-finite names the value") {
  const NamedTensor a = leaf("a", ones({2})), b = leaf("b", full({2, 2}, 1e30));
  set_grad(a, tensor({1, 1}));
  set_grad(b, full({2, 2}, 1e30));
  SGD sgd({{{a, b}}}, {.momentum = 0.9});
  CHECK_THROWS_WITH(sgd.step({.lr = 1e20}),
                    "SGD: the update makes b [2, 2] -inf at [0, 0]; lower the learning rate (now "
                    "1e+20) or the weight decay");
  AdamW squares({{{a, b}}});
  CHECK_THROWS_WITH(squares.step({.lr = 0.1}), Contains("makes b.exp_avg_sq [2, 2] inf at [0, 0]"));
  AdamW decay({{{a, b}, 1e10}});
  CHECK_THROWS_WITH(decay.step({.lr = 1, .clip_norm = 1}),
                    Contains("makes b [2, 2] -inf at [0, 0]"));
  SGD buffer({{{a}, 1e39}}, {.momentum = 0.9});
  CHECK_THROWS_WITH(buffer.step({.lr = 1e-39}), Contains("makes a.momentum_buffer [2] inf"));
  set_grad(b, zeros({2, 2}));
  AdamW nothing({{{b}}}, {.eps = 0});
  // The update computes 0 / 0, because the gradient is 0 and eps is 0 in float32.
  CHECK_THROWS_WITH(nothing.step({.lr = 0.1}), Contains("makes b [2, 2] "));
}

// Each case sets values that the next step makes infinite. The guard of step() must find them.
TEST_CASE("an update that would be non-finite is undone, whatever the steps before it did") {
  const DType dtype = GENERATE(float32, float64);
  const double large = dtype == float32 ? 1e38 : 1e308;
  const std::string how = GENERATE("first gradient", "no gradient", "write", "buffer");
  const int kind = GENERATE(0, 1, 2);  // SGD, SGD with momentum, AdamW
  if (how == "buffer" && kind == 0) return;
  INFO(how << " " << kind);
  const bool starts_large = how == "first gradient" || how == "no gradient";
  const NamedTensor a = leaf("a", ones({2}, dtype)),
                    b = leaf("b", full({3}, starts_large ? large : 1, dtype));
  const std::vector<ParameterGroup> groups{{{a, b}, 0.5}};
  std::unique_ptr<Optimizer> optimizer;
  if (kind == 2)
    optimizer = std::make_unique<AdamW>(groups);
  else
    optimizer = std::make_unique<SGD>(groups, SGDOptions{.momentum = 0.9 * kind});
  const auto step = [&](bool both, double lr) {
    optimizer->zero_grad();
    set_grad(a, ones({2}, dtype));
    if (both) set_grad(b, ones({3}, dtype));
    optimizer->step({.lr = lr});
  };
  if (how != "first gradient") step(true, 0);
  if (starts_large) step(false, 0);
  const NoGrad no_grad;
  if (how == "write") fill_(b.tensor, large);
  if (how == "buffer") {  // at momentum_buffer or exp_avg of b; exp_avg_sq of b is 0
    const std::vector<NamedTensor> state = optimizer->state();
    fill_(state[kind == 1 ? 3 : 4].tensor, large);
    if (kind == 2) fill_(state[5].tensor, 0);
  }
  std::vector<Values> before{values(a.tensor), values(b.tensor)}, after;
  for (const NamedTensor& s : optimizer->state()) before.push_back(values(s.tensor));
  {
    const GradMode recording(true);
    CHECK_THROWS_AS(step(true, 900), NumericError);
  }
  after = {values(a.tensor), values(b.tensor)};
  for (const NamedTensor& s : optimizer->state()) after.push_back(values(s.tensor));
  CHECK(after == before);
}

TEST_CASE("optimizers throw for invalid parameters and options") {
  const NamedTensor p = leaf("p", ones({2, 3}));
  CHECK_THROWS_WITH(SGD({{{p, {"q", p.tensor}}}}),
                    "SGD: q and p are the same parameter; list it once");
  CHECK_THROWS_WITH(AdamW({{{{"t", transpose(ones({2, 3}), 0, 1)}}}}), Contains("row-major"));
  CHECK_THROWS_AS(SGD({{{{"i", ones({2}, int64)}}}}), DTypeError);
  CHECK_THROWS_AS(SGD({{{p}, -0.1}}), ValueError);
  CHECK_THROWS_AS(SGD({{{p}}}, {.momentum = 1}), ValueError);
  CHECK_THROWS_AS(AdamW({{{p}}}, {.beta2 = 1}), ValueError);
  CHECK_THROWS_AS(AdamW({{{p}}}, {.eps = std::nan("")}), ValueError);
  CHECK_THROWS_WITH(AdamW({{{p}}}, {.eps = 1e-46}),
                    "AdamW: `eps` 1e-46 is rounded to 0 in float32, the dtype of p; needs 0 or at "
                    "least 1e-37");
  CHECK_NOTHROW(AdamW({{{leaf("p64", ones({2}, float64))}}}, {.eps = 1e-46}));
  AdamW adam({{{p}}});
  set_grad(p, ones({2, 3}));
  for (const double lr : {-1.0, std::nan(""), kInf})
    CHECK_THROWS_AS(adam.step({.lr = lr}), ValueError);
  CHECK(values(p.tensor) == Values(6, 1));
}

TEST_CASE("the norms before and after clipping are returned") {
  const NamedTensor p = leaf("p", zeros({3}, float64));
  SGD sgd({{{p}}});
  set_grad(p, tensor({3.0, -4.0, 0.5}, float64));
  CHECK(sgd.step({.lr = 0, .clip_norm = 0.75}) == Approx(std::sqrt(25.25)));
  CHECK(sgd.clipped_norm() == Approx(0.75).epsilon(1e-5));
  CHECK(values(p.tensor.grad()) == Values{3, -4, 0.5});  // .grad does not change
  const double norm = sgd.step({.lr = 0});               // without clipping, both norms are equal
  CHECK(norm == sgd.clipped_norm());
}

}  // namespace
