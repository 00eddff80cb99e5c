#include "autograd/check/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "autograd/check/oracles.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using namespace oracles;

// Random signs, sizes in [0.5, 1.5): no output counts for nothing.
Tensor cotangent(const Shape& shape, Generator& random) {
  Tensor v = empty(shape, float64);
  random.uniform(std::span(v.mutable_data<double>(), std::size_t(v.numel())), -1, 1);
  return v + where(ge(v, 0), full({}, 0.5, float64), full({}, -0.5, float64));
}

// An oracle that is less sure of an entry than this, of its terms (five digits), has not checked
// it.
constexpr double kResolved = 0x1p-16;

bool all_finite(const Tensor& x) { return all(isfinite(x)).item() != 0; }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && all(eq(a, b)).item() != 0;
}

// The digits of the worst entry first; what is not finite has none.
bool worse(const GradientEntry& a, const GradientEntry& b) {
  return !(a.error() <= b.error()) && !std::isnan(b.error());
}

// Why an entry fails: of all outputs, the one whose derivative differs most from the oracle's.
std::string describe(Oracle oracle, const Point& p, const Direction& d) {
  GradientEntry worst;
  std::int64_t output = -1;
  for (std::int64_t o = 0; o < p.v.numel(); ++o) {
    Point one_output{p.f, p.xs, zeros(p.v.shape(), float64), p.value, p.noise};
    one_output.v.mutable_data<double>()[o] = 1;
    GradientEntry e = engine_entry(d, engine_gradients(p.f, p.xs, one_output.v));
    ask(oracle, one_output, d, false, e);
    const double difference = std::abs(e.engine - e.oracle);
    if (output >= 0 && difference <= std::abs(worst.engine - worst.oracle)) continue;
    worst = e;
    output = o;
    if (!std::isfinite(difference)) break;
  }
  std::ostringstream text;
  text.precision(10);
  text << "input " << d.input << " at " << unravel(d.at, p.xs[std::size_t(d.input)].shape());
  if (output >= 0) text << ", output at " << unravel(output, p.v.shape());
  text << ": engine " << worst.engine << ", " << oracle_name(oracle) << " " << worst.oracle;
  return text.str();
}

// One order's check. `report` gets its findings.
class OrderCheck {
 public:
  OrderCheck(const DifferentiableFunction& f, Args xs, int order, const GradcheckOptions& options,
             GradcheckReport& report)
      : p_{f, Tensors(xs.begin(), xs.end()), {}, {}},
        order_(order),
        options_(options),
        report_(report) {
    report_.order = order;
    report_.entries[order - 1] = 0;
    for (const Tensor& x : xs) report_.entries[order - 1] += x.numel();
  }

  /// The point checked: the inputs given, or beside their kinks.
  Tensors run() {
    constexpr int kMoves = 4;
    for (int moves = 0;; ++moves) {
      kinks_.clear();
      check_here();
      if (kinks_.empty() || !report_.ok) return p_.xs;
      if (moves == kMoves) {
        fail("a kink stays, though moved " + std::to_string(moves) + " times");
        return p_.xs;
      }
      move_from_kinks();
    }
  }

 private:
  void fail(const std::string& message) {
    if (report_.ok) report_.message = "order " + std::to_string(order_) + ": " + message;
    report_.ok = false;
  }

  Agreement& agreement(Oracle oracle) { return report_.agreements[order_ - 1][int(oracle)]; }

  void check_here() {
    for (const Oracle oracle : kAllOracles) agreement(oracle) = {};
    Generator random(options_.seed);
    const Tensor y = call(p_.f, p_.xs);
    if (!all_finite(y)) {
      agreement(Oracle::kDual).worst.oracle = std::nan("");
      return fail("the function's value is not finite");
    }
    p_ = {p_.f, p_.xs, cotangent(y.shape(), random), y.to_vector<double>()};
    g_ = engine_gradients(p_.f, p_.xs, p_.v);
    check_runs();
    if (!report_.ok) return;
    const Direction all = all_entries(p_.xs, random);
    if (options_.use_differences) {
      p_.noise = measure_noise(p_.line(all), all.scale, 0x1p-53);
      run_oracle(Oracle::kDifferences, options_.difference_entries, all, random);
    }
    if (options_.use_dual && kinks_.empty())
      run_oracle(Oracle::kDual, options_.dual_entries, all, random);
    std::int64_t checked = 0;
    for (const Oracle oracle : kAllOracles) checked += agreement(oracle).checked;
    if (checked == 0 && kinks_.empty() && report_.entries[order_ - 1] > 0)
      fail("no entry could be told from rounding noise");
  }

  // What needs no oracle: shapes, finite values, repeatability, the zero cotangent.
  void check_runs() {
    const Tensors again = engine_gradients(p_.f, p_.xs, p_.v);
    for (std::size_t i = 0; i < g_.size(); ++i) {
      check(g_[i].shape() == p_.xs[i].shape(), "gradcheck", "gradient ", i, " has shape ",
            g_[i].shape(), ", its input ", p_.xs[i].shape());
      const Values values = g_[i].to_vector<double>();
      for (std::size_t j = 0; j < values.size() && report_.ok; ++j)
        if (!std::isfinite(values[j])) {
          const Direction d = one_entry(p_.xs, i, std::int64_t(j));
          agreement(Oracle::kDual).worst = engine_entry(d, g_);
          fail("a gradient is not finite; " + describe(Oracle::kDual, p_, d));
        }
      if (report_.ok && !same_bits(g_[i], again[i]))
        fail("a second run gave input " + std::to_string(i) + " other bits");
    }
    for (const Tensor& g : engine_gradients(p_.f, p_.xs, zeros(p_.v.shape(), float64)))
      if (!same_bits(g, zeros(g.shape(), float64))) fail("a zero cotangent gave a gradient");
  }

  void run_oracle(Oracle oracle, std::int64_t entries, const Direction& all, Generator& random) {
    take_entries(oracle, entries, random);
    const Verdict together = take(oracle, all);
    if (together == Verdict::kRight || !report_.ok || !kinks_.empty()) return;
    // One of those that were left out is wrong, or at a kink.
    take_entries(oracle, 2000, random);
    if (together == Verdict::kWrong && report_.ok && kinks_.empty())
      fail("all inputs in a random direction disagree with " + std::string(oracle_name(oracle)));
  }

  void take_entries(Oracle oracle, std::int64_t count, Generator& random) {
    for (const auto& [i, j] : spread(p_.xs, count, random)) {
      const Direction d = one_entry(p_.xs, i, j);
      const Verdict verdict = take(oracle, d);
      if (verdict == Verdict::kKink) kinks_.push_back(d);
      if (verdict == Verdict::kWrong) return fail(describe(oracle, p_, d));
    }
  }

  enum class Verdict { kRight, kWrong, kKink };
  Verdict take(Oracle oracle, const Direction& d) {
    GradientEntry e = engine_entry(d, g_);
    if (ask(oracle, p_, d, options_.use_dual, e)) return Verdict::kKink;
    const bool right = std::abs(e.engine - e.oracle) <= e.tolerance && std::isfinite(e.tolerance);
    const bool resolved = e.tolerance <= kResolved * e.terms || e.engine == e.oracle;
    if (d.input < 0) agreement(oracle).together = e;
    if (d.input >= 0 && (resolved || !right)) {
      Agreement& found = agreement(oracle);
      ++found.checked;
      if (!right || found.checked == 1 || worse(e, found.worst)) found.worst = e;
    }
    return right ? Verdict::kRight : Verdict::kWrong;
  }

  void move_from_kinks() {
    for (const Direction& d : kinks_) {
      Tensor& x = p_.xs[std::size_t(d.input)];
      x = from_data(x.to_vector<double>(), x.shape());
      double& value = x.mutable_data<double>()[d.at];
      std::ostringstream text;
      text << "input " << d.input << " at " << unravel(d.at, x.shape()) << " from " << value;
      value += d.scale / 16;
      text << " to " << value;
      report_.moved.push_back(text.str());
    }
  }

  Point p_;
  Tensors g_;
  std::vector<Direction> kinks_;
  const int order_;
  const GradcheckOptions& options_;
  GradcheckReport& report_;
};

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

}  // namespace

std::string_view oracle_name(Oracle oracle) {
  return oracle == Oracle::kDual ? "dual numbers" : "differences";
}

double GradientEntry::error() const { return relative_error(engine, oracle, terms); }

double GradientEntry::digits() const { return agreeing_digits(error()); }

double GradcheckReport::error(int o) const {
  double largest = 0;
  for (const Oracle oracle : kAllOracles)
    if (const double e = agreement(o, oracle).worst.error(); !(e <= largest)) largest = e;
  return largest;
}

std::ostream& operator<<(std::ostream& out, const GradcheckReport& r) {
  if (!r.ok) return out << "gradcheck failed, " << r.message;
  if (r.entries[0] == 0) return out << "gradcheck: the inputs have no entries to check";
  out << "gradcheck agrees";
  const char* before = " to ";
  for (const Oracle oracle : kAllOracles) {
    double digits = 16;
    std::int64_t checked = 0;
    for (int order = 1; order <= r.order; ++order) {
      const Agreement& found = r.agreement(order, oracle);
      checked += found.checked;
      digits = std::min(digits, found.worst.digits());
    }
    if (checked == 0) continue;
    out << before << std::floor(digits * 10) / 10 << " digits by " << oracle_name(oracle);
    before = ", ";
  }
  return out << " (order " << r.order << ")";
}

GradcheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                          const GradcheckOptions& options) {
  check<ValueError>(options.order == 1 || options.order == 2, "gradcheck",
                    "order must be 1 or 2, got ", options.order);
  check<ValueError>((options.use_dual && options.dual_entries > 0) ||
                        (options.use_differences && options.difference_entries > 0),
                    "gradcheck", "needs an oracle, and entries for it");
  for (const Tensor& x : inputs)
    check<DTypeError>(x.dtype() == float64, "gradcheck", "needs float64 inputs, got ", x.dtype(),
                      "; in float32 no step size tells a wrong gradient from rounding");
  GradcheckReport report;
  report.seed = options.seed;
  Tensors point = OrderCheck(f, inputs, 1, options, report).run();
  if (!report.ok || options.order == 1) return report;
  Generator random(options.seed + 1);
  const std::size_t n = point.size();
  point.push_back(cotangent(call(f, point).shape(), random));
  OrderCheck(gradient_function(f, n, options.seed + 2), point, 2, options, report).run();
  return report;
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
      results.push_back(
          {check.name(), sample.name, layout, options.order, std::move(report), skipped});
    }
  if (samples.empty()) {
    CheckResult none{check.name(), "", CheckLayout::kContiguous, options.order, {}, {}};
    none.report.ok = false;
    none.report.message = "order 1: the check has no samples";
    results.push_back(none);
  }
  return results;
}

}  // namespace heed::autograd
