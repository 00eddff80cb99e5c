#include "autograd/check/check_vjp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "autograd/base/error.h"
#include "autograd/check/call_checks.h"
#include "autograd/check/checker.h"

namespace heed::autograd {
namespace {

constexpr Index kFewestEntries = 16;

// Returns the elements of all arrays, concatenated.
template <class T>
Values flatten_arrays(const Arrays<T>& arrays) {
  Values flat;
  for (const std::vector<T>& array : arrays) flat.insert(flat.end(), array.begin(), array.end());
  return flat;
}

// Inverse of flatten_arrays(): splits `flat` into arrays with the lengths of the arrays in `like`.
template <class T>
Arrays<T> split_values(Arrays<T> like, const Values& flat) {
  auto next = flat.begin();
  for (std::vector<T>& array : like)
    for (T& e : array) e = T(*next++);
  return like;
}

// Returns the one-dimensional shapes of the arrays.
template <class T>
std::vector<Shape> shapes_of(const Arrays<T>& arrays) {
  std::vector<Shape> shapes;
  for (const std::vector<T>& array : arrays) shapes.emplace_back(array.size());
  return shapes;
}

// A derivative returned arrays of other lengths than expected.
struct Malformed {
  std::string text;
};

// Returns the elements of all arrays that `function` returned. Throws Malformed unless the arrays
// have the number and the lengths of those in `like`. `kind` names these in the message.
template <class T>
Values flatten_like(const Arrays<T>& arrays, const Arrays<T>& like, const std::string& function,
                    const std::string& kind) {
  if (arrays.size() != like.size())
    throw Malformed{joined_text(function, " returns ", arrays.size(), " arrays for ", like.size(),
                                " ", kind, "s")};
  for (std::size_t i = 0; i < like.size(); ++i)
    if (arrays[i].size() != like[i].size())
      throw Malformed{joined_text(function, " returns ", arrays[i].size(), " values for ", kind,
                                  " ", i, ", which has ", like[i].size())};
  return flatten_arrays(arrays);
}

// Adapts functions on arrays to the checker. y is the result of forward at x.
template <class T>
CheckedFunction checked_arrays(const Derivatives<T>& f, const Arrays<T>& x, const Arrays<T>& y) {
  CheckedFunction c;
  c.x = flatten_arrays(x);
  c.inputs = shapes_of(x), c.outputs = shapes_of(y);
  c.roundoff = std::numeric_limits<T>::epsilon() / 2;
  c.forward = [=, count = std::ssize(flatten_arrays(y))](const Values& at) {
    Values values = flatten_arrays(f.forward(split_values(x, at)));
    check<ValueError>(std::ssize(values) == count, "check_vjp", "forward returns ", values.size(),
                      " values near x and ", count, " at x; it must always return the same number");
    return values;
  };
  if (f.backward)
    c.backward = [=](const Values& at, const Values& v) {
      return flatten_like(f.backward(split_values(x, at), split_values(y, v)), x, "backward",
                          "input");
    };
  Arrays<T> both = x;
  both.insert(both.end(), y.begin(), y.end());
  if (f.backward2)
    c.backward2 = [=](const Values& at, const Values& v, const Values& t) {
      return flatten_like(f.backward2(split_values(x, at), split_values(y, v), split_values(x, t)),
                          both, "backward2", "array");
    };
  if (f.jvp)
    c.exact = jvp_oracle([=](const Values& at, const Values& t) {
      return flatten_like(f.jvp(split_values(x, at), split_values(x, t)), y, "jvp", "output");
    });
  return c;
}

// Returns true if e compares input i with differences. The step of other oracles is 0.
bool is_of(const Comparison& e, std::size_t i) { return e.input == i && e.step != 0; }

// Repeats the comparisons of one input with differences, with the derivative wrong(e) in place of
// that of comparison e, and adds the outcome to the report. `name` is the name of this mutation.
void replay(const Comparisons& comparisons, std::size_t input, std::string_view name,
            const std::function<double(const Comparison& e)>& wrong, CheckReport& report) {
  bool differs = false, passes = true;
  for (const Comparison& e : comparisons.all()) {
    if (!is_of(e, input)) continue;
    const double value = wrong(e);
    differs |= !(std::abs(value - e.given) <= e.rounding);
    passes &= e.passes(value);
  }
  ++report.mutants;
  report.equivalent += !differs;
  report.killed += differs && !passes;
  if (differs && passes)
    report.refuse(Verdict::kVacuous, "input ", input, ": a wrong gradient (", name,
                  ") passes too, because the rounding error of forward hides the difference; "
                  "choose another x");
}

// Compares wrong versions of the gradient of one input. This gradient is at the positions begin to
// begin + n - 1 of the concatenated gradients. If a version passes, the verdict becomes kVacuous.
void replay_mutants(const Comparisons& comparisons, std::size_t input, std::size_t begin, Index n,
                    CheckReport& report) {
  const Comparison* clearest = nullptr;  // entry with the largest |given| / tolerance
  bool is_resolved = false;
  for (const Comparison& e : comparisons.all()) {
    if (!is_of(e, input)) continue;
    is_resolved |= e.terms > 0 ? e.resolved : e.cotangent == 0;
    if (e.at == CheckedEntry::kDirection) continue;
    if (!clearest ||
        std::abs(e.given) * clearest->tolerance > std::abs(clearest->given) * e.tolerance)
      clearest = &e;
  }
  if (!clearest) return;
  if (!is_resolved)
    report.refuse(Verdict::kVacuous, "input ", input,
                  ": the rounding error of forward hides its gradient; choose another x");
  for (const auto& [name, factor] : {std::pair("opposite sign", -1), {"doubled", 2}, {"zero", 0}})
    replay(
        comparisons, input, name, [by = factor](const Comparison& e) { return by * e.given; },
        report);
  if (comparisons.gradients[0].g.empty()) return;  // jvp is checked, which has no entries
  const auto spoil = [&](std::string_view name, auto change) {
    std::vector<Values> wrong;
    for (const Gradient& e : comparisons.gradients)
      change(std::span(wrong.emplace_back(e.g)).subspan(begin, std::size_t(n)));
    replay(
        comparisons, input, name,
        [&](const Comparison& e) { return e.along->dot(wrong[e.cotangent]); }, report);
  };
  spoil("one column off",
        [](std::span<double> g) { std::rotate(g.begin(), g.begin() + 1, g.end()); });
  spoil("reversed", [](std::span<double> g) { std::ranges::reverse(g); });
  spoil("one entry dropped", [&](std::span<double> g) { g[std::size_t(clearest->at)] = 0; });
}

// Checks that jvp returns the same bits in a second run, and that its result for a tangent is the
// sum of those for the even and for the odd entries. A jvp that is not linear is wrong by more than
// rounding.
void check_jvp_calls(const CheckedFunction& f, std::uint64_t seed, CheckReport& report) {
  Generator random(seed);
  Values t = random_cotangent(f.x.size(), random), parts[2] = {t, t};
  for (std::size_t k = 0; k < t.size(); ++k) {
    if (f.x[k] != 0) t[k] *= f.x[k];
    parts[k % 2][k] = t[k], parts[1 - k % 2][k] = 0;
  }
  const auto jvp = [&](const Values& tangent) { return f.exact(f.x, tangent).derivative; };
  const Values all = jvp(t), even = jvp(parts[0]), odd = jvp(parts[1]);
  if (all != jvp(t))
    report.refuse(
        Verdict::kWrong,
        "a second run of jvp returns different bits, or NaN; correct jvp, or its random seed");
  const double largest = std::max(largest_of(even), largest_of(odd)),
               rounding = 4 * kRoundings * f.roundoff * largest_of(f.forward(f.x));
  for (std::size_t o = 0; o < all.size(); ++o)
    if (!(std::abs(even[o] + odd[o] - all[o]) <= std::cbrt(f.roundoff) * largest + rounding))
      report.refuse(Verdict::kWrong,
                    "jvp is not linear in the tangent: for two tangents together it "
                    "does not return the sum of its results for each of them");
}

// Checks the backward pass or, if there is none, the jvp of f, and adds the findings to the report.
// Returns x, moved off kinks.
Values check_order(CheckedFunction f, const CheckOptions& options, int order, CheckReport& report) {
  const Index exact = f.exact && f.backward ? options.max_entries : 0;
  const bool has_calls = order == 1 && f.backward;
  Checker checker(
      std::move(f),
      {.entries = {options.max_entries, exact}, .fewest = kFewestEntries, .resolved = 0.25},
      options.seed, order, report);
  checker.run();
  const CheckedEntry& worst = report.by(order, Oracle::kDifferences).worst;
  // Four right digits could be those of an iterative forward.
  if (report.verdict == Verdict::kWrong && options.forward_error == 0 &&
      worst.given != worst.expected && worst.digits() >= 4)
    report.message += "; is forward iterative? Then pass its tolerance as forward_error";
  const Point& point = checker.point();
  for (std::size_t i = 0; i < point.f.inputs.size() && order == 1; ++i)
    if ((report.ok() || (worst.input == i && worst.at >= 0 && worst.expected == 0)) &&
        checker.is_staircase(i)) {
      report.verdict = Verdict::kRight;
      report.refuse(Verdict::kVacuous, "input ", i,
                    ": forward changes only in jumps; its derivative is 0 between them, "
                    "and differences cannot check another one");
    }
  if (report.verdict == Verdict::kWrong && has_calls)
    report.diagnosis = diagnose(checker.comparisons().compared_gradient());
  for (std::size_t i = 0; report.verdict != Verdict::kWrong && i < point.f.inputs.size(); ++i)
    replay_mutants(checker.comparisons(), i, point.starts[i], point.f.inputs[i].numel(), report);
  if (report.ok() && has_calls) checker.check_elsewhere();
  if (report.ok() && has_calls) checker.check_calls();
  return point.f.x;
}

// Returns backward as a function of x and dy, whose derivative is backward2. The second derivative
// H with respect to x is symmetric. The derivative along a direction (u, w) is therefore
// H u + J^T w, where backward2 computes H u, and backward computes J^T w.
CheckedFunction gradient_function(const CheckedFunction& f, Values x, const Values& dy) {
  CheckedFunction g = f;
  const auto n = std::ptrdiff_t(x.size());
  const auto first = [n](const Values& both) { return Values(both.begin(), both.begin() + n); };
  const auto last = [n](const Values& both) { return Values(both.begin() + n, both.end()); };
  x.insert(x.end(), dy.begin(), dy.end());
  g.x = x, g.foreign = nullptr, g.forward_error = 0;
  g.inputs.insert(g.inputs.end(), f.outputs.begin(), f.outputs.end());
  g.outputs = f.inputs;
  g.forward = [=](const Values& both) { return f.backward(first(both), last(both)); };
  g.backward = [=](const Values& both, const Values& t) {
    return f.backward2(first(both), last(both), t);
  };
  // backward may add terms of the size of <dy, y> / x, which cancel.
  const Values y = f.forward(f.x);
  double noise = 0;
  for (std::size_t o = 0; o < y.size(); ++o)
    noise = std::hypot(noise, dy[o] * std::max(f.roundoff * std::abs(y[o]), f.forward_error));
  const double largest = largest_of(f.x);
  // Avoids a division by 0 or by a subnormal number.
  const double least = largest == 0 ? 1 : std::max(0x1p-1000, f.roundoff * largest);
  for (const double e : f.x)
    g.least_noise.push_back(noise / std::max(least, e == 0 ? largest : std::abs(e)));
  g.exact = [=](const Values& both, const Values& t) {
    const Values by_x = f.backward2(first(both), last(both), first(t));
    ExactDerivative d{f.backward(first(both), last(t)), {}};
    for (std::size_t k = 0; k < d.derivative.size(); ++k) {
      d.terms.push_back(std::abs(by_x[k]) + std::abs(d.derivative[k]));
      d.derivative[k] += by_x[k];
    }
    return d;
  };
  g.exact_is_given = true;
  g.names = {"backward", "backward2", "the gradient of input"};
  return g;
}

// Checks the second derivative of f at a point x at which its gradient is right.
void check_second_order(const CheckedFunction& f, const Values& x, const CheckOptions& options,
                        CheckReport& report) {
  Generator random(options.seed + 1);
  const CheckedFunction g = gradient_function(f, x, random_cotangent(f.forward(x).size(), random));
  report.exact_names[1] = "the transposed entries (symmetry)";
  check_order(g, options, 2, report);
  if (!report.ok())
    report.message = joined_text("order 2 (inputs from ", f.inputs.size(),
                                 " on are dy, the gradients of the outputs): ", report.message);
}

}  // namespace

std::function<ExactDerivative(const Values& x, const Values& tangent)> jvp_oracle(
    const std::function<Values(const Values& x, const Values& tangent)>& jvp) {
  return [jvp](const Values& x, const Values& tangent) {
    const Values small = times(jvp(x, times(tangent, 0x1p-10)), 0x1p10),
                 large = times(jvp(x, times(tangent, 0x1p6)), 0x1p-6);
    ExactDerivative d{jvp(x, tangent), {}};
    for (std::size_t o = 0; o < d.derivative.size(); ++o) {
      double& e = d.derivative[o];
      e = std::abs(small[o] - e) <= std::abs(large[o] - e) ? large[o] : small[o];
      d.terms.push_back(std::abs(e));
    }
    return d;
  };
}

CheckReport check_function(CheckedFunction f, const CheckOptions& options) {
  check<ValueError>(options.max_entries >= 1, "check_vjp", "max_entries must be at least 1, got ",
                    options.max_entries);
  check<ValueError>(options.forward_error >= 0 && std::isfinite(options.forward_error), "check_vjp",
                    "forward_error must be finite and at least 0, got ", options.forward_error);
  check<ValueError>(f.backward || (f.exact && !f.backward2), "check_vjp",
                    "needs backward, or jvp without backward2");
  CheckReport report;
  report.seed = options.seed;
  report.exact_names[0] = "values of jvp";
  if (f.x.empty())
    report.refuse(Verdict::kVacuous, "nothing to check: x must have at least 1 entry");
  else if (std::ranges::all_of(f.outputs, [](const Shape& s) { return s.numel() == 0; }))
    report.refuse(Verdict::kVacuous, "nothing to check: forward must return at least 1 value");
  else if (const auto bad = std::ranges::find_if(f.x, is_not_finite); bad != f.x.end())
    report.refuse(Verdict::kWrong,
                  "not finite: ", element_name("input", f.inputs, std::size_t(bad - f.x.begin())));
  if (!report.ok()) return report;
  f.exact_is_given = true;
  f.forward_error = options.forward_error;
  if (!f.backward) f.names.backward = "jvp";
  try {
    if (f.exact) check_jvp_calls(f, options.seed, report);
    const Values x = check_order(f, options, 1, report);
    if (report.ok() && f.backward2) check_second_order(f, x, options, report);
  } catch (const NoSecondDerivative&) {
    report.refuse(Verdict::kVacuous, "order 2: no second derivative");
  } catch (const Malformed& e) {
    report.refuse(Verdict::kWrong, e.text);
  }
  return report;
}

template <class T>
CheckReport check_derivatives(const Derivatives<T>& f, const std::vector<std::vector<T>>& x,
                              const CheckOptions& options) {
  return check_function(checked_arrays(f, x, f.forward(x)), options);
}
template CheckReport check_derivatives(const Derivatives<float>&, const Arrays<float>&,
                                       const CheckOptions&);
template CheckReport check_derivatives(const Derivatives<double>&, const Arrays<double>&,
                                       const CheckOptions&);

}  // namespace heed::autograd
