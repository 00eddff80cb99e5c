// Tests of check_jvp and of check_derivatives: second derivatives, jvps, and both with a backward
// pass. The right derivatives are those of heed's engine.
#include "autograd/autograd.h"
#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

using Tensors = std::vector<Tensor>;
// Returns the gradients of the inputs for the gradient v of the only output, as functions of both.
using TensorBackward = std::function<Tensors(Args x, const Tensor& v)>;

TensorBackward backward_of(const DifferentiableFunction& f) {
  return [f](Args x, const Tensor& v) {
    return grad(f(x), x, {.grad_output = v, .create_graph = true, .allow_unused = true});
  };
}

// Returns f, a function of vectors, on arrays, with the derivatives of `backward`.
template <class T>
Derivatives<T> derivatives_of(const DifferentiableFunction& f, TensorBackward backward = {}) {
  if (!backward) backward = backward_of(f);
  const auto leaves = [](const Arrays<T>& arrays) {
    Tensors all;
    for (const std::vector<T>& a : arrays)
      all.push_back(from_data(a, {std::ssize(a)}).requires_grad_());
    return all;
  };
  const auto values = [](const Tensors& tensors) {
    Arrays<T> all;
    for (const Tensor& t : tensors) all.push_back(t.to_vector<T>());
    return all;
  };
  Derivatives<T> d;
  d.forward = [=](const Arrays<T>& x) { return values({f(leaves(x))}); };
  d.backward = [=](const Arrays<T>& x, const Arrays<T>& v) {
    return values(backward(leaves(x), leaves(v)[0]));
  };
  d.backward2 = [=](const Arrays<T>& x, const Arrays<T>& v, const Arrays<T>& t) {
    Tensors all = leaves(x);
    all.push_back(leaves(v)[0]);
    const Tensors g = backward(Args(all).first(x.size()), all.back()), ts = leaves(t);
    Tensor total = sum(g[0] * ts[0]);
    for (std::size_t i = 1; i < g.size(); ++i) total = total + sum(g[i] * ts[i]);
    return values(grad(total, all, {.allow_unused = true}));
  };
  // backward is linear in v, and its derivative along v is the transposed Jacobian.
  d.jvp = [b2 = d.backward2, forward = d.forward](const Arrays<T>& x, const Arrays<T>& t) {
    return Arrays<T>{b2(x, forward(x), t).back()};
  };
  return d;
}

// Returns the report of a check, which Catch2 prints if the next assertion fails.
template <class T>
CheckReport check(const Derivatives<T>& f, const Arrays<T>& x, const CheckOptions& options = {}) {
  CheckReport report = check_derivatives<T>(f, x, options);
  std::ostringstream text;
  text << report;
  UNSCOPED_INFO(text.str());
  return report;
}

// Adds a change of its result to a function.
template <class F, class Change>
F changed(const F& right, Change change) {
  return [=](const auto& x, const auto&... more) {
    auto result = right(x, more...);
    change(result, more...);
    return result;
  };
}

Tensor tensor_softmax(Args x) { return softmax(x[0], -1); }
Tensor cube(Args x) { return x[0] * x[0] * x[0]; }

template <class T>
const Arrays<T> kPoint = {{T(0.3), T(-1.2), T(0.7), T(2.1), T(-0.4)}};

TEMPLATE_TEST_CASE("right second derivatives pass in both types", "", float, double) {
  using T = TestType;
  const DifferentiableFunction functions[] = {
      tensor_softmax, cube, [](Args x) { return layer_norm(x[0], x[0].shape()); },
      [](Args x) { return exp(x[0]) * x[1]; }, [](Args x) { return relu(x[0]) * x[1]; }};
  for (const DifferentiableFunction& f : functions) {
    Derivatives<T> d = derivatives_of<T>(f);
    d.jvp = {};
    CAPTURE(&f - functions);
    const CheckReport report = check(d, {kPoint<T>[0], { T(1.5), 2, T(-0.5), T(0.25), 3 }});
    CHECK(report.ok());
    CHECK(report.order == 2);
    CHECK(report.entries[1] == 15);
    for (const Oracle oracle : kAllOracles) CHECK(report.by(2, oracle).checked >= 13);
    CHECK(report.by(2, Oracle::kDual).worst.digits() > (std::is_same_v<T, float> ? 5 : 14));
  }
}

TEST_CASE("wrong second derivatives fail, and the message names the entry") {
  const auto fails = [](const TensorBackward& backward, const std::string& name) {
    Derivatives<double> f = derivatives_of<double>(cube, backward);
    f.jvp = {};
    const CheckReport report = check(f, kPoint<double>);
    CHECK(report.verdict == Verdict::kWrong);
    CHECK(
        report.message.starts_with("order 2 (inputs from 1 on are dy, the gradients of the "
                                   "outputs): " +
                                   name + " at ["));
    CHECK(message_contains(report, ": backward2 returns "));
    CHECK(message_contains(report, "for the gradient of input ["));
    CHECK(report.digits() > 8);  // order 1 is right
  };
  const auto detached = [](Args x, const Tensor& v) {
    return Tensors{3.0 * x[0].detach() * x[0].detach() * v};
  };
  const auto one_term = [](Args x, const Tensor& v) {
    return Tensors{3.0 * x[0] * x[0].detach() * v};
  };
  const auto wrong_dy = [](Args x, const Tensor& v) {
    return Tensors{3.0 * x[0] * x[0] * (0.5 * v + 0.5 * v.detach())};
  };
  fails(detached, "input 0");
  fails(one_term, "input 0");
  fails(wrong_dy, "input 1");
}

TEST_CASE("an asymmetric second derivative fails, even if differences do not see it") {
  Derivatives<double> f = derivatives_of<double>(tensor_softmax);
  f.jvp = {};
  f.backward2 = changed(f.backward2, [](Arrays<double>& g, auto&...) { g[0][3] *= 1 + 3e-11; });
  const CheckReport report = check(f, kPoint<double>);
  CHECK(report.verdict == Verdict::kWrong);
  CHECK(message_contains(report, "the transposed entries (symmetry) give "));
}

TEST_CASE("without a second derivative, order 2 is vacuous") {
  Derivatives<double> f = derivatives_of<double>(cube);
  f.jvp = {};
  f.backward2 = [](auto&...) -> Arrays<double> { throw NoSecondDerivative(); };
  const CheckReport report = check(f, kPoint<double>);
  CHECK(report.verdict == Verdict::kVacuous);
  CHECK(report.message == "order 2: no second derivative");
  CHECK(report.digits() > 8);
  f.backward2 = [](const auto& x, auto&...) { return x; };
  CHECK(check(f, kPoint<double>).message == "backward2 returns 1 arrays for 2 arrays");
}

TEMPLATE_TEST_CASE("a right jvp passes in both types, and one wrong output is named", "", float,
                   double) {
  using T = TestType;
  Derivatives<T> f = derivatives_of<T>(tensor_softmax);
  const CheckReport right = check_jvp<T>(f.forward, f.jvp, kPoint<T>);
  CHECK(right.ok());
  CHECK(right.checked() == 5);
  CHECK(right.killed == 3);
  CHECK(check(f, kPoint<T>).by(1, Oracle::kDual).checked == 5);
  f.jvp = changed(f.jvp, [](Arrays<T>& y, auto&...) { y[0][3] *= T(1.01); });
  const CheckReport wrong = check_jvp<T>(f.forward, f.jvp, kPoint<T>);
  CHECK(wrong.verdict == Verdict::kWrong);
  CHECK(message_contains(wrong, ": jvp returns "));
  CHECK(message_contains(wrong, "for output [3]"));
  const CheckReport both = check(f, kPoint<T>);
  CHECK(both.verdict == Verdict::kWrong);
  CHECK(message_contains(both, ", values of jvp give "));
}

TEST_CASE("jvps that are wrong in other ways fail") {
  Derivatives<double> f = derivatives_of<double>(tensor_softmax);
  const auto message = [&](const auto& change) {
    const CheckReport report = check_jvp<double>(f.forward, changed(f.jvp, change), kPoint<double>);
    CHECK(report.verdict == Verdict::kWrong);
    return report.message;
  };
  message([](Arrays<double>& y, const auto& t) {  // clips large tangents
    for (const double e : t[0])
      if (std::abs(e) > 20) y[0][0] *= 0.5;
  });
  message([](Arrays<double>& y, const auto& t) {  // ignores small tangents
    for (const double e : t[0])
      if (e != 0 && std::abs(e) < 0.01) y[0][0] = 0;
  });
  message([](Arrays<double>& y, auto&) { y[0][4] += 1e-6; });
  CHECK(message([](Arrays<double>& y, const auto& t) {  // right for each single entry
          if (std::ranges::count(t[0], 0.0) == 0) y[0][0] *= 0.5;
        })
            .starts_with("jvp is not linear in the tangent: "));
  int calls = 0;
  const std::string twice = "a second run of jvp returns different bits, or NaN";
  CHECK(message([&](Arrays<double>& y, auto&) {
          y[0][4] *= 1 + 1e-15 * ++calls;
        }).starts_with(twice));
  CHECK(message([](Arrays<double>& y, auto&) { y[0][2] = std::nan(""); }).starts_with(twice));
  CHECK(message([](Arrays<double>& y, auto&) { y[0].pop_back(); }) ==
        "jvp returns 4 values for output 0, which has 5");
  // Differences have 11 digits, and backward has 15.
  f.backward2 = {};
  f.jvp = changed(f.jvp, [](Arrays<double>& y, auto&) { y[0][3] *= 1 + 1e-12; });
  CHECK(check(f, kPoint<double>).verdict == Verdict::kWrong);
}

TEST_CASE("one wrong entry of the jvp of many is named, and kinks are moved") {
  const auto absolute = [](const Arrays<double>& x) {
    Arrays<double> y = x;
    for (double& e : y[0]) e = std::abs(e);
    return y;
  };
  const JvpFunction<double> jvp = [](const Arrays<double>& x, const Arrays<double>& t) {
    Arrays<double> y = t;
    for (std::size_t k = 0; k < y[0].size(); ++k) y[0][k] *= x[0][k] < 0 ? -1 : 1;
    return y;
  };
  Arrays<double> x(1);
  for (int k = 0; k < 500; ++k) x[0].push_back(k == 17 ? 0 : std::sin(double(k)));
  const CheckReport right = check_jvp<double>(absolute, jvp, x, {.max_entries = 50});
  CHECK((right.ok() && !right.moved.empty()));
  const auto wrong = changed(jvp, [](Arrays<double>& y, auto&) { y[0][432] *= 1.5; });
  CHECK(message_contains(check_jvp<double>(absolute, wrong, x, {.max_entries = 50}),
                         "input 0 at [432]: jvp returns "));
  // Rounding hides the derivative, so a wrong one passes too.
  const auto plus = [](const Arrays<double>& a) { return Arrays<double>{{a[0][0] + 1e20}}; };
  const CheckReport hidden =
      check_jvp<double>(plus, [](const auto&, const auto& t) { return t; }, {{1.5}});
  CHECK(hidden.verdict == Verdict::kVacuous);
}

}  // namespace
