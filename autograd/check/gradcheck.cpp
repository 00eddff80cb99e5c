#include "autograd/check/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using Tensors = std::vector<Tensor>;

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }

double dot(const Tensors& a, const Tensors& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += dot(a[i], b[i]);
  return total;
}

Tensors normal_like(Args xs, Generator& g) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(randn(x.shape(), float64, g));
  return out;
}

Tensor call(const DifferentiableFunction& f, Args xs) {
  const NoGrad guard;
  return f(xs);
}

// J^T v by the engine, for every input.
Tensors analytic(const DifferentiableFunction& f, Args xs, const Tensor& v) {
  const GradMode recording(true);
  Tensors leaves;
  for (const Tensor& x : xs) leaves.push_back(x.detach().requires_grad());
  const Tensor y = f(leaves);
  if (!y.needs_grad()) {  // f does not depend on its inputs
    Tensors zero;
    for (const Tensor& x : xs) zero.push_back(zeros_like(x));
    return zero;
  }
  return grad(y, leaves, {.grad_output = v, .allow_unused = true});
}

// f at x + t u, elementwise, in each x's own layout.
Tensor shifted(const DifferentiableFunction& f, Args xs, const Tensors& u, double t) {
  Tensors moved;
  for (std::size_t i = 0; i < xs.size(); ++i) moved.push_back(xs[i] + u[i] * t);
  return call(f, moved);
}

constexpr double kStep = 1e-3;

// (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h: error O(h^4)
Tensor four_point(const DifferentiableFunction& f, Args xs, const Tensors& u, double h) {
  const Tensor near = shifted(f, xs, u, h) - shifted(f, xs, u, -h);
  const Tensor far = shifted(f, xs, u, 2 * h) - shifted(f, xs, u, -2 * h);
  return (near * 8.0 - far) / (12 * h);
}

// Richardson's extrapolation of two steps: error O(h^6).
Tensor difference(const DifferentiableFunction& f, Args xs, const Tensors& u) {
  return (four_point(f, xs, u, kStep / 2) * 16.0 - four_point(f, xs, u, kStep)) / 15.0;
}

Tensor oracle_jvp(Oracle oracle, const DifferentiableFunction& f, Args xs, const Tensors& u) {
  return oracle == Oracle::kDual ? jvp(f, xs, u).tangent : difference(f, xs, u);
}

double relative(double a, double n) { return std::abs(a - n) / (1 + std::abs(n)); }

struct Entry {
  std::size_t input;
  std::int64_t at, output;
  double engine, oracle, error;
};

// Builds the whole Jacobian both ways and finds the entry where they differ most: the first that is
// not finite, if there is one. Of a model's parameters, some 2000 evenly spread ones.
std::optional<Entry> find_worst(Oracle oracle, const DifferentiableFunction& f, Args xs,
                                const Tensor& y) {
  std::optional<Entry> worst;
  std::vector<std::vector<std::vector<double>>> rows;  // [output][input][element]
  for (std::int64_t o = 0; o < y.numel(); ++o) {
    std::vector<double> unit(std::size_t(y.numel()), 0.0);
    unit[std::size_t(o)] = 1;
    rows.emplace_back();
    for (const Tensor& g : analytic(f, xs, from_data(unit, y.shape())))
      rows.back().push_back(g.to_vector<double>());
  }
  std::int64_t elements = 0;
  for (const Tensor& x : xs) elements += x.numel();
  const std::int64_t step = 1 + elements / 2000;
  for (std::size_t i = 0; i < xs.size(); ++i)
    for (std::int64_t j = 0; j < xs[i].numel(); j += step) {
      Tensors u;
      for (const Tensor& x : xs) u.push_back(zeros(x.shape(), float64));
      u[i].mutable_data<double>()[j] = 1;
      const auto column = oracle_jvp(oracle, f, xs, u).to_vector<double>();
      for (std::int64_t o = 0; o < y.numel(); ++o) {
        const double a = rows[std::size_t(o)][i][std::size_t(j)], n = column[std::size_t(o)];
        const double e = relative(a, n);
        if (!worst || !(e <= worst->error)) worst = {i, j, o, a, n, e};
        if (!std::isfinite(e)) return worst;
      }
    }
  return worst;
}

std::string worst_entry(Oracle oracle, const DifferentiableFunction& f, Args xs) {
  const Tensor y = call(f, xs);
  const std::optional<Entry> worst = find_worst(oracle, f, xs, y);
  if (!worst) return "(no entries)";
  std::ostringstream text;
  text.precision(10);
  text << "input " << worst->input << " at " << unravel(worst->at, xs[worst->input].shape())
       << ", output at " << unravel(worst->output, y.shape()) << ": engine " << worst->engine
       << ", " << (oracle == Oracle::kDual ? "dual numbers " : "differences ") << worst->oracle;
  return text.str();
}

void fail_with(GradcheckReport& report, const std::string& message) {
  if (report.ok) report.message = "order " + std::to_string(report.order) + ": " + message;
  report.ok = false;
}

bool all_finite(const Tensor& x) { return all(isfinite(x)).item() != 0; }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && all(eq(a, b)).item() != 0;
}

// Order 1 of f: both oracles, random directions, zero cotangent, repeatability.
GradcheckReport check_first_order(const DifferentiableFunction& f, Args xs, int order,
                                  const GradcheckOptions& options) {
  GradcheckReport report;
  report.order = order;
  Generator random(options.seed);
  const Tensor y = call(f, xs);
  if (!all_finite(y)) {
    report.error = std::nan("");
    fail_with(report, "the function's value is not finite");
  }
  for (int d = 0; d < options.directions && report.ok; ++d) {
    const Tensor v = randn(y.shape(), float64, random);
    const Tensors u = normal_like(xs, random);
    const Tensors g = analytic(f, xs, v);
    const Tensors again = analytic(f, xs, v);
    for (std::size_t i = 0; i < g.size(); ++i) {
      check(g[i].shape() == xs[i].shape(), "gradcheck", "gradient ", i, " has shape ", g[i].shape(),
            ", its input ", xs[i].shape());
      if (!all_finite(g[i]))
        fail_with(report, "a gradient is not finite; " + worst_entry(Oracle::kDual, f, xs));
      else if (!same_bits(g[i], again[i]))
        fail_with(report, "a second run gave input " + std::to_string(i) + " other bits");
    }
    const double engine = dot(g, u);
    for (const Oracle oracle : {Oracle::kDifferences, Oracle::kDual}) {
      const bool dual = oracle == Oracle::kDual;
      if (!(dual ? options.use_dual : options.use_differences)) continue;
      const double expected = dot(v, oracle_jvp(oracle, f, xs, u));
      const double error = relative(engine, expected);
      if (!(error <= report.error)) report.error = error;
      if (!(error <= (dual ? options.dual_tolerance : options.difference_tolerance)))
        fail_with(report, worst_entry(oracle, f, xs));
    }
  }
  report.order_error[order - 1] = report.error;
  for (const Tensor& g : analytic(f, xs, zeros(y.shape(), float64)))
    if (!same_bits(g, zeros_like(g))) fail_with(report, "a zero cotangent gave a gradient");
  return report;
}

// h(x..., c) = sum over i of <w_i, (J(x)^T c)_i>, w random and fixed: its gradient holds every
// second derivative of f, and differentiating it runs the double backward.
DifferentiableFunction gradient_function(const DifferentiableFunction& f, std::size_t n,
                                         std::uint64_t seed) {
  return [f, n, seed](Args all) -> Tensor {
    const GradMode recording(true);
    Generator random(seed);
    const Args xs = all.first(n);
    const Tensor& c = all[n];
    const bool differentiable =
        std::any_of(all.begin(), all.end(), [](const Tensor& t) { return t.needs_grad(); });
    Tensors leaves;
    for (const Tensor& x : xs) leaves.push_back(differentiable ? x : x.detach().requires_grad());
    const Tensor y = f(leaves);
    Tensor total = zeros({}, float64);
    if (!y.needs_grad()) return total;
    const Tensors g =
        grad(y, leaves, {.grad_output = c, .create_graph = differentiable, .allow_unused = true});
    for (const Tensor& gi : g) total = total + sum(gi * randn(gi.shape(), float64, random));
    return differentiable ? total : total.detach();
  };
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const GradcheckReport& r) {
  if (!r.ok) return out << "gradcheck failed, " << r.message;
  const double digits = r.error > 0 ? std::min(16.0, -std::log10(r.error)) : 16;
  return out << "gradcheck agrees to " << std::floor(digits * 10) / 10 << " digits (order "
             << r.order << ", largest error " << r.error << ")";
}

GradcheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                          const GradcheckOptions& options) {
  check<ValueError>(options.order == 1 || options.order == 2, "gradcheck",
                    "order must be 1 or 2, got ", options.order);
  check<ValueError>(options.directions >= 1 && (options.use_dual || options.use_differences),
                    "gradcheck", "needs at least one direction and one oracle");
  for (const Tensor& x : inputs)
    check<DTypeError>(x.dtype() == float64, "gradcheck", "needs float64 inputs, got ", x.dtype(),
                      "; in float32 no step size tells a wrong gradient from rounding");
  GradcheckReport first = check_first_order(f, inputs, 1, options);
  if (!first.ok || options.order == 1) return first;
  Tensors with_cotangent(inputs.begin(), inputs.end());
  Generator random(options.seed + 1);
  with_cotangent.push_back(randn(call(f, inputs).shape(), float64, random));
  GradcheckReport second = check_first_order(gradient_function(f, inputs.size(), options.seed + 2),
                                             with_cotangent, 2, options);
  second.order_error[0] = first.error;
  if (!(first.error <= second.error)) second.error = first.error;
  return second;
}

std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options,
                                   std::span<const CheckLayout> layouts) {
  std::vector<CheckResult> results;
  const Samples samples = check.samples();
  for (const Sample& sample : samples)
    for (const CheckLayout layout : layouts) {
      const LaidOut laid_out = with_layout(sample, layout);
      SkipReason skipped = laid_out.why_not;
      if (repeats_elements(layout) && laid_out.sample) skipped = sample.no_repeats;
      GradcheckReport report;
      if (laid_out.sample && skipped.empty())
        report = gradcheck(laid_out.sample->f, laid_out.sample->inputs, options);
      results.push_back({check.name(), sample.name, layout, options.order, std::move(report),
                         skipped});
    }
  if (samples.empty()) {
    CheckResult none{check.name(), "", CheckLayout::kContiguous, options.order, {}, {}};
    fail_with(none.report, "the check has no samples");
    results.push_back(none);
  }
  return results;
}

}  // namespace heed::autograd
