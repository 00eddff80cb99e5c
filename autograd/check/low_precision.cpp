#include "autograd/check/low_precision.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "autograd/base/text.h"
#include "autograd/check/call_checks.h"

namespace heed::autograd {
namespace {

constexpr int kInputs = 64;
// kErrors is the number of standard errors by which the factor may differ from 1, and
// kErrorsOfReading that number if R is too large because of rounded outputs.
constexpr double kLargestRatio = 3, kErrors = 4, kErrorsOfReading = 3;
// If the errors of `plain` are above this fraction of the largest number, zeros could be right.
constexpr double kHides = 1 / (2 * kLargestRatio);
// Part of a rounding by which the factor may differ from 1. The roundings of intermediate results
// are not random: for inputs in a small range, or equal ones, most of them have the same sign.
constexpr double kSystematic = 0.5;
constexpr Index kReferenceEntries = 64;
constexpr double kCallRoundings = 4;

double median(Values values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// The results of one function in one array.
struct Results {
  // For each input: the largest error, as a fraction of the largest number of the reference, and
  // the dot product with the reference, divided by the square of this number.
  Values error = {}, product = {};
  Values element_product;  // for each element: its part of the sum of all products
};

// c of the least squares fit of c times the reference, and its standard error: the larger of those
// over the inputs and over the elements. An element near which few numbers of the type lie has
// similar roundings at all inputs.
struct Factor {
  double value = 1, error = 0;
  Factor(const Results& results, const Results& reference) {
    const double total = std::accumulate(reference.product.begin(), reference.product.end(), 0.0);
    if (total == 0) return;
    value = std::accumulate(results.product.begin(), results.product.end(), 0.0) / total;
    const auto over = [&](const Values& products, const Values& squares) {
      double sum = 0;
      for (std::size_t m = 0; m < squares.size(); ++m)
        sum = std::hypot(sum, products[m] - value * squares[m]);
      return sum * std::sqrt(1 + 1.0 / double(squares.size())) / total;
    };
    error = std::max(over(results.product, reference.product),
                     over(results.element_product, reference.element_product));
  }
};

// One array of the results: an output or a gradient.
struct ResultArray {
  std::string name;
  std::size_t size;
  Results given{.element_product = Values(size)}, plain = given, reference = given;
  double read_error = 0;  // error by which a backward pass that reads rounded outputs may be wrong

  double ratio() const {  // R
    return std::max(given.error[0] / std::ranges::max(plain.error),
                    median(given.error) / median(plain.error));
  }

  // Adds the results at one input: g of the function, p of the plain version, r of the reference.
  void add(const double* g, const double* p, const double* r, const Precision& type) {
    double largest = largest_of({r, size});
    const double rounding =
        std::max(type.roundoff, largest > type.smallest ? type.smallest / 2 / largest : 0.0);
    largest = std::max(largest, type.smallest);
    const auto add_to = [&](Results& results, const double* v, double error) {
      double product = 0;
      for (std::size_t k = 0; k < size; ++k) {
        if (std::isfinite(v[k])) error = std::max(error, std::abs(v[k] - r[k]) / largest);
        const double part = v[k] / largest * (r[k] / largest);
        product += part, results.element_product[k] += part;
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

// Returns the largest difference of a and b from `begin` to `end`, as a fraction of the largest
// number of a.
double change(const Values& a, const Values& b, std::size_t begin, std::size_t end) {
  const double largest = largest_of(std::span(a).subspan(begin, end - begin));
  double difference = 0;
  for (std::size_t k = begin; k < end; ++k)
    difference = std::max(difference, std::abs(b[k] - a[k]));
  return largest > 0 ? difference / largest : 0;
}

// Sets the read errors of `gradients`. A backward pass that reads rounded outputs cannot
// distinguish x from points at which the outputs differ by one rounding of the largest of them. Its
// error may be the change of the gradient to such a point (the mean over random directions).
void set_read_errors(const CheckedFunction& reference, std::size_t outputs, double roundoff,
                     Generator random, std::span<ResultArray> gradients) {
  constexpr int kDirections = 8;
  constexpr double kFarthest = 0.125;
  for (int i = 0; i < kDirections; ++i) {
    Direction along;
    for (std::size_t k = 0; k < reference.x.size(); ++k)
      along.moves.emplace_back(k, (random.next_u32() % 2 == 0 ? 1 : -1) * reference.x[k]);
    const Values dy = random_cotangent(outputs, random),
                 at_x = results_of(reference, reference.x, dy);
    const double rate =
        change(at_x, reference.forward(along.from(reference.x, roundoff)), 0, outputs);
    const double far = std::min(kFarthest, roundoff * roundoff / rate);
    const Values moved = results_of(reference, along.from(reference.x, far), dy);
    std::size_t at = outputs;
    for (ResultArray& array : gradients) {
      array.read_error += change(at_x, moved, at, at + array.size) / kDirections;
      at += array.size;
    }
  }
}

// Judges one array, and keeps the largest R and the factor that is farthest from 1 in the report.
void judge(const ResultArray& array, const Precision& type, CheckReport& report) {
  const Factor c(array.given, array.reference), plain(array.plain, array.reference);
  const double allowed =
      kErrors * c.error +
      std::max(kSystematic * type.roundoff, std::abs(plain.value - 1) - kErrors * plain.error);
  const double ratio = array.ratio();
  LowPrecision& found = report.low_precision;
  found.inputs = kInputs;
  found.ratio = std::max(found.ratio, ratio);
  if (std::abs(c.value - 1) >= std::abs(found.factor - 1))
    found.factor = c.value, found.factor_error = c.error;
  TextStream text;
  text.precision(5);
  text << array.name << " is " << c.value << " +- " << c.error
       << " times the reference, and the error is R = " << ratio
       << " times that of the plain version, ";
  if (!(median(array.plain.error) <= kHides))
    report.refuse(Verdict::kVacuous, text.str(), "whose rounding errors hide wrong results");
  const bool is_one = std::abs(c.value - 1) <= allowed, is_small = ratio <= kLargestRatio;
  if (!is_small && std::abs(c.value - 1) <= kErrorsOfReading * c.error &&
      median(array.given.error) <= array.read_error &&
      array.given.error[0] <= kLargestRatio * array.read_error)
    report.refuse(Verdict::kVacuous, text.str(),
                  "as rounding of the outputs alone can cause, if backward reads them; "
                  "choose inputs with less extreme outputs");
  if (!is_one || !is_small)
    report.refuse(Verdict::kWrong, text.str(),
                  "or one rounding if there is none; the first must "
                  "be 1 within 4 errors and half a rounding, and R at most 3");
}

// Returns the largest error of the plain version in each element of `results`, which are arrays[0],
// arrays[1], ...
Values plain_errors(std::span<const ResultArray> arrays, const Values& results) {
  Values errors;
  for (const ResultArray& array : arrays) {
    const double largest = largest_of(std::span(results).subspan(errors.size(), array.size));
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
  f.roundoff = kCallRoundings * type.roundoff / kRoundings;
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
                                CheckedFunction reference, const Precision& type,
                                const CheckOptions& options) {
  CheckReport report;
  report.seed = options.seed, report.entries[0] = std::ssize(given.x);
  if (!reference.forward) {
    report.refuse(Verdict::kVacuous, "a verdict needs a reference: the same function in float64");
    return report;
  }
  reference.backward2 = nullptr;
  const CheckReport right =
      check_function(reference, {.seed = options.seed, .max_entries = kReferenceEntries});
  if (!right.ok()) report.refuse(Verdict::kVacuous, "the reference: ", right.message);
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
          report.refuse(Verdict::kWrong, array.name, " is not finite; choose other inputs");
      array.add(g.data() + at, p.data() + at, r.data() + at, type);
      at += array.size;
    }
  }
  const std::span gradients = std::span(arrays).subspan(given.outputs.size());
  if (report.ok() && std::ranges::any_of(gradients, [](const ResultArray& a) {
        return !(a.ratio() <= kLargestRatio);
      }))
    set_read_errors(reference, outputs, type.roundoff, random, gradients);
  for (const ResultArray& array : arrays)
    if (report.ok()) judge(array, type, report);
  if (report.ok()) check_low_precision_calls(given, type, arrays, options, report);
  return report;
}

}  // namespace heed::autograd
