#include "autograd/check/low_precision.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <sstream>

#include "autograd/check/call_checks.h"

namespace heed::autograd {
namespace {

constexpr int kInputs = 64;
constexpr double kLargestRatio = 3, kErrors = 4;
// If the errors of `plain` are above this fraction of the largest number, zeros could be right.
constexpr double kHides = 1 / (2 * kLargestRatio);
// An error of the factor below this fraction of a rounding comes from sums in double.
constexpr double kExact = 0x1p-10;
constexpr std::int64_t kReferenceEntries = 64;
constexpr double kCallRoundings = 4;

double median(Values values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// The results of one function in one array, with one element for each input.
struct Results {
  Values error = {};    // largest error, as a fraction of the largest number of the reference
  Values product = {};  // dot product with the reference, divided by the square of this number
};

// c of the least squares fit of c times the reference, and its standard error.
struct Factor {
  double value = 1, error = 0;
  Factor(const Values& products, const Values& squares) {
    const double total = std::accumulate(squares.begin(), squares.end(), 0.0);
    if (total == 0) return;
    value = std::accumulate(products.begin(), products.end(), 0.0) / total;
    for (std::size_t m = 0; m < squares.size(); ++m)
      error = std::hypot(error, products[m] - value * squares[m]);
    error *= std::sqrt(kInputs / (kInputs - 1.0)) / total;
  }
};

// One array of the results: an output or a gradient.
struct ResultArray {
  std::string name;
  std::size_t size;
  Results given = {}, plain = {}, reference = {};

  // Adds the results at one input: g of the function, p of the plain version, r of the reference.
  void add(const double* g, const double* p, const double* r, const Precision& type) {
    double largest = 0;
    for (std::size_t k = 0; k < size; ++k) largest = std::max(largest, std::abs(r[k]));
    const double rounding =
        std::max(type.roundoff, largest > type.smallest ? type.smallest / 2 / largest : 0.0);
    largest = std::max(largest, type.smallest);
    const auto add_to = [&](Results& results, const double* v, double error) {
      double product = 0;
      for (std::size_t k = 0; k < size; ++k) {
        if (std::isfinite(v[k])) error = std::max(error, std::abs(v[k] - r[k]) / largest);
        product += v[k] / largest * (r[k] / largest);
      }
      results.error.push_back(error), results.product.push_back(product);
    };
    add_to(given, g, 0), add_to(plain, p, rounding), add_to(reference, r, 0);
  }
};

// Returns the outputs and then the gradients of f.
Values results_of(const CheckedFunction& f, const Values& x, const Values& dy) {
  Values all = f.forward(x);
  const Values gradients = f.backward(x, dy);
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

// Judges one array, and keeps the largest R and the factor that is farthest from 1 in the report.
void judge(const ResultArray& array, const Precision& type, CheckReport& report) {
  const Factor c(array.given.product, array.reference.product);
  const Factor plain(array.plain.product, array.reference.product);
  const double allowed = kErrors * c.error + kExact * type.roundoff +
                         std::max(0.0, std::abs(plain.value - 1) - kErrors * plain.error);
  const double usual = median(array.plain.error);
  const double ratio = std::max(array.given.error[0] / std::ranges::max(array.plain.error),
                                median(array.given.error) / usual);
  LowPrecision& found = report.low_precision;
  found.inputs = kInputs;
  found.ratio = std::max(found.ratio, ratio);
  if (std::abs(c.value - 1) >= std::abs(found.factor - 1))
    found.factor = c.value, found.factor_error = c.error;
  std::ostringstream text;
  text.precision(5);
  text << array.name << " is " << c.value << " +- " << c.error
       << " times the reference, and the error is R = " << ratio
       << " times that of the plain version, ";
  if (!(usual <= kHides))
    report.refuse(Verdict::kVacuous, text.str() + "whose rounding errors hide wrong results");
  if (!(ratio <= kLargestRatio) || !(std::abs(c.value - 1) <= allowed))
    report.refuse(Verdict::kWrong, text.str() +
                                       "or one rounding if there is none; the first must "
                                       "be 1 within 4 errors, and R at most 3");
}

// Returns the largest error of the plain version in each element of `results`, which are arrays[0],
// arrays[1], ...
Values plain_errors(std::span<const ResultArray> arrays, const Values& results) {
  Values errors;
  for (const ResultArray& array : arrays) {
    double largest = 0;
    for (std::size_t k = errors.size(); k < errors.size() + array.size; ++k)
      largest = std::max(largest, std::abs(results[k]));
    errors.resize(errors.size() + array.size, std::ranges::max(array.plain.error) * largest);
  }
  return errors;
}

// Checks layouts and repeated calls. Another layout may select another kernel. A result may
// therefore differ by kCallRoundings roundings, plus 4 times plain_errors() (find_difference()).
// `arrays` are the outputs and the gradients.
void check_low_precision_calls(CheckedFunction f, const Precision& type,
                               std::span<const ResultArray> arrays, const CheckOptions& options,
                               CheckReport& report) {
  Generator random(options.seed);
  f.other_roundoff = kCallRoundings * type.roundoff / kRoundings;
  const Values y = f.forward(f.x);
  Values v = random_cotangent(y.size(), random);
  for (double& e : v) e = type.rounded(e);
  const std::size_t outputs = f.outputs.size();
  const auto noise = [&](const Values&, const Values& g) {
    return plain_errors(arrays.subspan(outputs), g);
  };
  check_calls(f, {v, y, f.backward(f.x, v), plain_errors(arrays.first(outputs), y), noise}, report);
}

}  // namespace

CheckReport check_low_precision(const CheckedFunction& given, const CheckedFunction& plain,
                                const CheckedFunction& reference, const Precision& type,
                                const CheckOptions& options) {
  CheckReport report;
  report.seed = options.seed, report.entries[0] = std::ssize(given.x);
  if (!reference.forward) {
    report.refuse(Verdict::kVacuous, "a verdict needs a reference: the same function in float64" +
                                         rounding_by_step(given, type.roundoff));
    return report;
  }
  const CheckReport right = check_function(
      reference, {.seed = options.seed, .max_entries = kReferenceEntries, .order = 1});
  if (!right.ok()) report.refuse(Verdict::kVacuous, "the reference: " + right.message);
  if (given.backward2 || given.exact)
    report.refuse(Verdict::kVacuous,
                  "order 2 and jvp are checked only in float32 and float64; leave them out");
  std::vector<ResultArray> arrays;
  std::size_t outputs = 0;
  for (const Shape& shape : given.outputs) {
    arrays.push_back({"output " + std::to_string(arrays.size()), std::size_t(shape.numel())});
    outputs += arrays.back().size;
  }
  for (std::size_t i = 0; i < given.inputs.size(); ++i)
    arrays.push_back(
        {"the gradient of input " + std::to_string(i), std::size_t(given.inputs[i].numel())});
  Generator random(options.seed);
  for (int m = 0; report.ok() && m < kInputs; ++m) {
    constexpr double kSizes[] = {1, 8, 0.125};  // a backward pass may clip dy
    Values x = given.x, dy = random_cotangent(outputs, random);
    for (double& e : dy) e = type.rounded(e) * kSizes[m % 3];
    // The sign of each entry stays, and with it its side of a kink at 0.
    if (m > 0)
      for (double& e : x) e = type.rounded(e * (1 - random.uniform_double() / 8));
    const Values g = results_of(given, x, dy), r = results_of(reference, x, dy),
                 p = plain.forward ? results_of(plain, x, dy) : r;
    std::size_t at = 0;
    for (ResultArray& array : arrays) {
      for (std::size_t k = at; k < at + array.size; ++k)
        if (!std::isfinite(g[k]))
          report.refuse(Verdict::kWrong, array.name + " is not finite; choose other inputs");
      array.add(g.data() + at, p.data() + at, r.data() + at, type);
      at += array.size;
    }
  }
  for (const ResultArray& array : arrays)
    if (report.ok()) judge(array, type, report);
  if (report.ok()) check_low_precision_calls(given, type, arrays, options, report);
  return report;
}

std::string rounding_by_step(const CheckedFunction& f, double roundoff) {
  constexpr double kStep = 1e-6, kFew = 16;
  constexpr std::size_t kEntries = 8;
  double most = 0, coarsest = 0;
  for (std::size_t k = 0; k < f.x.size(); k += f.x.size() / kEntries + 1) {
    Values left = f.x, right = f.x;
    left[k] -= kStep, right[k] += kStep;
    const Values a = f.forward(left), b = f.forward(right);
    for (std::size_t o = 0; o < a.size(); ++o) {
      if (a[o] == 0 && b[o] == 0) continue;
      const double larger = std::max(std::abs(a[o]), std::abs(b[o]));
      const double rounding = roundoff * std::exp2(std::floor(std::log2(larger)) + 1);
      most = std::max(most, std::abs(b[o] - a[o]) / rounding);
      coarsest = std::max(coarsest, rounding);
    }
  }
  if (coarsest == 0 || !(most <= kFew)) return "";
  std::ostringstream text;
  text << "; differences of forward by a fixed step of " << kStep << " are at most " << most
       << " times " << coarsest / (2 * kStep)
       << ", the rounding of an output divided by the step, so they do not show a wrong gradient";
  return text.str();
}

}  // namespace heed::autograd
