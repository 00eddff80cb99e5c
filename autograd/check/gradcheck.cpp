#include "autograd/check/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "autograd/check/checker.h"
#include "autograd/check/tensor_function.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using Tensors = std::vector<Tensor>;

// Returns the function h(x..., c) = sum over the inputs i of <w_i, (J(x)^T c)_i>. J is the Jacobian
// of f, c is a cotangent, and the w_i are random but fixed. The gradient of h depends on all
// second derivatives of f, and its computation differentiates the backward pass of f.
DifferentiableFunction gradient_function(const DifferentiableFunction& f, std::size_t n,
                                         std::uint64_t seed) {
  return [f, n, seed](Args all) -> Tensor {
    const GradMode recording(true);
    Generator random(seed);
    const Args xs = all.first(n);
    const Tensor& c = all[n];
    const bool differentiable =
        std::any_of(all.begin(), all.end(), [](const Tensor& t) { return t.requires_grad(); });
    Tensors leaves;
    for (const Tensor& x : xs) leaves.push_back(differentiable ? x : x.detach().requires_grad_());
    const Tensor y = f(leaves);
    Tensor total = zeros({}, float64);
    if (!y.requires_grad()) return total;
    const Tensors g =
        grad(y, leaves, {.grad_output = c, .create_graph = differentiable, .allow_unused = true});
    for (const Tensor& gi : g) total = total + sum(gi * randn(gi.shape(), float64, random));
    return differentiable ? total : total.detach();
  };
}

// Checks f at one order. Returns the point at which f was checked: the inputs, or the inputs moved
// off their kinks.
Tensors check_order(const DifferentiableFunction& f, Args inputs, int order,
                    const GradcheckOptions& options, CheckReport& report) {
  Checker checker(checked_function(f, inputs, options.dual_entries > 0),
                  {.entries = {options.difference_entries, options.dual_entries}}, options.seed,
                  order, report);
  checker.run();
  Index checked = 0;
  for (const Oracle oracle : kAllOracles) checked += report.by(order, oracle).checked;
  if (checked == 0 && report.entries[order - 1] > 0)
    report.refuse(Verdict::kVacuous,
                  "no entry can be distinguished from rounding errors; choose other inputs");
  if (!report.ok()) report.message = "order " + std::to_string(order) + ": " + report.message;
  return to_tensors({inputs.begin(), inputs.end()}, checker.point().f.x);
}

// Checks all orders and fills `report`. `report.order` is always the order that is being checked.
void check_orders(const DifferentiableFunction& f, Args inputs, const GradcheckOptions& options,
                  CheckReport& report) {
  check<ValueError>(options.order == 1 || options.order == 2, "gradcheck",
                    "order must be 1 or 2, got ", options.order);
  const auto [fewest, most] = std::minmax(options.dual_entries, options.difference_entries);
  check<ValueError>(fewest >= 0 && most > 0, "gradcheck",
                    "dual_entries and difference_entries must be at least 0, not both 0; got ",
                    options.dual_entries, " and ", options.difference_entries);
  for (const Tensor& x : inputs)
    check<DTypeError>(x.dtype() == float64, "gradcheck", "needs float64 inputs, got ", x.dtype(),
                      "; in float32 no step size separates a wrong gradient from rounding errors");
  Tensors point = check_order(f, inputs, 1, options, report);
  if (!report.ok() || options.order == 1) return;
  report.order = 2;
  Generator random(options.seed + 1);
  const std::size_t n = point.size();
  const Shape shape = call_unrecorded(f, point).shape();
  point.push_back(from_data(random_cotangent(std::size_t(shape.numel()), random), shape));
  check_order(gradient_function(f, n, options.seed + 2), point, 2, options, report);
}

// Runs `work`. If it throws an Error, the verdict of the report becomes kWrong.
void run_or_fail(CheckReport& report, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    report.refuse(Verdict::kWrong, "order ", report.order, ": threw ", e.what());
    report.oracles[report.order - 1][0].worst.expected = std::nan("");
  }
}

}  // namespace

CheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                      const GradcheckOptions& options) {
  CheckReport report;
  check_orders(f, inputs, options, report);
  return report;
}

std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options) {
  std::vector<CheckResult> results;
  Samples samples;
  CheckResult none{check.name(), "", CheckLayout::kContiguous, {}, {}};
  run_or_fail(none.report, [&] { samples = check.samples(); });
  none.report.refuse(Verdict::kVacuous, "order 1: the check has no samples; return at least one");
  if (samples.empty()) results.push_back(none);
  for (const Sample& sample : samples)
    for (const CheckLayout layout : kAllLayouts) {
      CheckResult r{check.name(), sample.name, layout, {}, {}};
      run_or_fail(r.report, [&] {
        const SampleInLayout laid_out = with_layout(sample, layout);
        r.skipped = skip_text(laid_out.why_not);
        if (laid_out.sample)
          check_orders(laid_out.sample->f, laid_out.sample->inputs, options, r.report);
      });
      results.push_back(std::move(r));
    }
  return results;
}

}  // namespace heed::autograd
