#include "autograd/check/check_vjp.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "autograd/check/checker.h"
#include "autograd/check/mutations.h"

namespace heed::autograd {
namespace {

constexpr std::int64_t kFewestEntries = 16;

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

// Adapts two functions on arrays to the checker. y is the result of forward at x.
template <class T>
CheckedFunction checked_arrays(const ForwardFunction<T>& forward,
                               const BackwardFunction<T>& backward, const Arrays<T>& x,
                               const Arrays<T>& y) {
  CheckedFunction c;
  c.x = flatten_arrays(x);
  c.inputs = shapes_of(x), c.outputs = shapes_of(y);
  c.single = std::is_same_v<T, float>;
  c.forward = [=, count = std::ssize(flatten_arrays(y))](const Values& at) {
    Values values = flatten_arrays(forward(split_values(x, at)));
    check<ValueError>(std::ssize(values) == count, "check_vjp", "forward returns ", values.size(),
                      " values near x and ", count, " at x; it must always return the same number");
    return values;
  };
  c.backward = [=](const Values& at, const Values& v) {
    return flatten_arrays(backward(split_values(x, at), split_values(y, v)));
  };
  return c;
}

// Returns the compared entry of input i with the largest ratio of absolute value to tolerance.
// Returns null if no entry of the input was compared.
const Comparison* find_clearest(const std::vector<Comparison>& comparisons, std::size_t i) {
  const Comparison* clearest = nullptr;
  for (const Comparison& e : comparisons) {
    if (e.input != i || e.at == CheckedEntry::kDirection) continue;
    if (!clearest ||
        std::abs(e.given) * clearest->tolerance > std::abs(clearest->given) * e.tolerance)
      clearest = &e;
  }
  return clearest;
}

// Repeats the comparisons of one input with the wrong gradients, and adds the outcome to the
// report. `name` is the name of the mutation that made the gradients wrong.
void replay(const Checker& checker, const std::vector<Values>& wrong, std::size_t input,
            std::string_view name, CheckReport& report) {
  bool differs = false, passes = true;
  for (const Comparison& e : checker.comparisons()) {
    if (e.input != input) continue;
    const double value = e.along.dot(wrong[e.cotangent]);
    differs |= !(std::abs(value - e.given) <= e.rounding);
    passes &= e.passes(value);
  }
  ++report.mutants;
  report.equivalent += !differs;
  report.killed += differs && !passes;
  if (differs && passes)
    report.refuse(Verdict::kVacuous, "input " + std::to_string(input) + ": a wrong gradient (" +
                                         std::string(name) +
                                         ") passes too, because the rounding error of forward "
                                         "hides the difference; choose another x");
}

// Compares all mutations of the gradient of one input. This gradient is at the positions begin to
// begin + n - 1 of the concatenated gradients. If a mutation passes, the verdict becomes kVacuous.
void replay_mutants(const Checker& checker, std::size_t input, std::size_t begin, std::int64_t n,
                    CheckReport& report) {
  const std::vector<Comparison>& comparisons = checker.comparisons();
  const Comparison* clearest = find_clearest(comparisons, input);
  if (!clearest) return;
  if (std::none_of(comparisons.begin(), comparisons.end(), [input](const Comparison& e) {
        return e.input == input && (e.terms > 0 ? e.resolved : e.cotangent == 0);
      }))
    report.refuse(Verdict::kVacuous,
                  "input " + std::to_string(input) +
                      ": the rounding error of forward hides its gradient; choose another x");
  for (const Mutation& m : mutations()) {
    if (!m.of_values) continue;
    std::vector<Values> wrong = checker.gradients();
    for (Values& g : wrong) {
      const auto first = g.begin() + std::ptrdiff_t(begin);
      const Tensor right = from_data(Values(first, first + n), {n});
      std::ranges::copy(m.apply(right, right.shape()).to_vector<double>(), first);
    }
    replay(checker, wrong, input, m.name, report);
  }
  std::vector<Values> wrong = checker.gradients();
  for (Values& g : wrong) g[begin + std::size_t(clearest->at)] = 0;
  replay(checker, wrong, input, "one entry dropped", report);
}

// Returns an error text if g, the result of backward, does not have one gradient for each input,
// with the input's length. Otherwise returns an empty string.
template <class T>
std::string find_malformed(const Arrays<T>& x, const Arrays<T>& g) {
  if (g.size() != x.size())
    return "backward returns " + std::to_string(g.size()) + " gradients for " +
           std::to_string(x.size()) + " inputs";
  for (std::size_t i = 0; i < g.size(); ++i)
    if (g[i].size() != x[i].size())
      return "backward returns " + std::to_string(g[i].size()) + " values for input " +
             std::to_string(i) + ", which has " + std::to_string(x[i].size());
  return {};
}

// Returns an error text if an element of x is not finite. Otherwise returns an empty string.
std::string find_not_finite(const CheckedFunction& f) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < f.inputs.size(); ++i)
    for (std::int64_t j = 0; j < f.inputs[i].numel(); ++j)
      if (!std::isfinite(f.x[begin++]))
        return "not finite: input " + std::to_string(i) + " at " + to_text(unravel(j, f.inputs[i]));
  return {};
}

}  // namespace

CheckReport check_function(const CheckedFunction& f, const CheckOptions& options,
                           const std::function<std::string()>& malformed) {
  check<ValueError>(options.max_entries >= 1, "check_vjp", "max_entries must be at least 1, got ",
                    options.max_entries);
  CheckReport report;
  report.seed = options.seed;
  if (f.x.empty())
    report.refuse(Verdict::kVacuous, "nothing to check: x must have at least 1 entry");
  else if (std::ranges::all_of(f.outputs, [](const Shape& s) { return s.numel() == 0; }))
    report.refuse(Verdict::kVacuous, "nothing to check: forward must return at least 1 value");
  else if (const std::string bad = find_not_finite(f); !bad.empty())
    report.refuse(Verdict::kWrong, bad);
  else if (const std::string text = malformed ? malformed() : ""; !text.empty())
    report.refuse(Verdict::kWrong, text);
  if (!report.ok()) return report;
  Checker checker(f,
                  {.entries = {options.max_entries, 0}, .fewest = kFewestEntries, .resolved = 0.25},
                  options.seed, 1, report);
  checker.run();
  if (report.verdict == Verdict::kWrong) report.diagnosis = diagnose(checker.compared_gradient());
  std::size_t begin = 0;
  for (std::size_t i = 0; report.verdict != Verdict::kWrong && i < f.inputs.size(); ++i) {
    const std::int64_t n = f.inputs[i].numel();
    replay_mutants(checker, i, begin, n, report);
    begin += std::size_t(n);
  }
  return report;
}

template <class T>
CheckReport check_vjp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<BackwardFunction<T>>& backward,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options) {
  const Arrays<T> y = forward(x);
  return check_function(checked_arrays(forward, backward, x, y), options,
                        [&] { return find_malformed(x, backward(x, y)); });
}
template CheckReport check_vjp(const ForwardFunction<float>&, const BackwardFunction<float>&,
                               const std::vector<std::vector<float>>&, const CheckOptions&);
template CheckReport check_vjp(const ForwardFunction<double>&, const BackwardFunction<double>&,
                               const std::vector<std::vector<double>>&, const CheckOptions&);

}  // namespace heed::autograd
