#include "autograd/graph/first_non_finite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

// Returns the elements in row-major order, or an empty vector if x is neither float32 nor float64.
std::vector<double> numbers(const Tensor& x) {
  if (x.dtype() == float64) return x.to_vector<double>();
  if (x.dtype() != float32) return {};
  const std::vector<float> values = x.to_vector<float>();
  return {values.begin(), values.end()};
}

// Row-major positions of the first NaN and of the first infinity in a tensor, and the range of its
// finite values.
struct Contents {
  std::optional<std::int64_t> nan, infinity;
  double least = HUGE_VAL, largest = -HUGE_VAL;

  explicit Contents(const Tensor& x) {
    const std::vector<double> values = numbers(x);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) {
        least = std::min(least, values[i]), largest = std::max(largest, values[i]);
        continue;
      }
      std::optional<std::int64_t>& first = std::isnan(values[i]) ? nan : infinity;
      if (!first) first = std::int64_t(i);
    }
  }
};

// Returns the element of x that index `at` reads after x is broadcast to `shape`. Returns nullopt
// if x does not broadcast to `shape`, or if x is neither float32 nor float64.
std::optional<double> value_at(const Tensor& x, const Dims& at, const Shape& shape) {
  const int lead = shape.rank() - x.rank();
  if (lead < 0) return {};
  std::int64_t flat = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t size = x.shape()[i];
    if (size != 1 && size != shape[lead + i]) return {};
    flat = flat * size + (size == 1 ? 0 : at[lead + i]);
  }
  const std::vector<double> values = numbers(x);
  if (std::size_t(flat) >= values.size()) return {};
  return values[std::size_t(flat)];
}

// Removes the sign of a NaN, which has no meaning.
double unsigned_nan(double x) { return std::isnan(x) ? std::nan("") : x; }

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  out.precision(4);
  (out << ... << parts);
  return out.str();
}

}  // namespace

FirstNonFinite::FirstNonFinite(std::vector<std::pair<std::string, Tensor>> names)
    : names_(std::move(names)) {}

std::string FirstNonFinite::text() const {
  if (!found()) return passed_on_;
  if (nan_.empty()) return infinity_;
  if (!nan_from_infinity_ || infinity_.empty()) return nan_;
  return infinity_ + "; which led to " + nan_;
}

// Returns the beginning of a report text, such as "blocks.0.attn: " or "blocks.0.attn: backward of
// softmax: ".
std::string FirstNonFinite::place() const {
  std::string path = NameScope::path();
  const Node* vjp = VjpScope::current();
  if (vjp) path = paths_.contains(vjp->sequence()) ? paths_.at(vjp->sequence()) : "";
  if (!path.empty()) path += ": ";
  return vjp ? path + "backward of " + std::string(vjp->op()->name()) + ": " : path;
}

std::string FirstNonFinite::described(const Operand& operand, const Dims& at,
                                      const Shape& result) const {
  const Tensor& x = *operand.value;
  std::string text = operand.name;
  for (const auto& [name, tensor] : names_)
    if (tensor.shares_storage(x)) text += " (" + name + ")";
  text += text_of(" ", x.shape(), " ", x.dtype());
  const Contents contents(x);
  if (const auto there = value_at(x, at, result))
    text += text_of(" is ", unsigned_nan(*there), " there");
  for (const auto& place : {contents.nan, contents.infinity})
    if (place)
      text += text_of(", ", unsigned_nan(numbers(x)[std::size_t(*place)]), " at ",
                      unravel(*place, x.shape()));
  if (contents.least <= contents.largest)
    text += text_of(", ", contents.least, " to ", contents.largest);
  return text;
}

void FirstNonFinite::check_result(const std::string& what, const Tensor& result,
                                  const std::vector<Operand>& operands) {
  if (!nan_.empty()) return;
  const Contents made(result);
  if (!made.nan && (!made.infinity || !infinity_.empty())) return;
  bool had_nan = false, had_infinity = false;
  for (const Operand& operand : operands) {
    const Contents contents(*operand.value);
    had_nan = had_nan || contents.nan;
    had_infinity = had_infinity || contents.infinity;
  }
  const auto describe = [&](std::int64_t flat) {
    const Dims at = unravel(flat, result.shape());
    std::string text = text_of(place(), what, " ", result.shape(), " ", result.dtype(), " is ",
                               unsigned_nan(numbers(result)[std::size_t(flat)]), " at ", at);
    for (const Operand& operand : operands)
      text += (&operand == operands.data() ? ": " : "; ") + described(operand, at, result.shape());
    return text;
  };
  if (made.nan && !had_nan) {
    nan_ = describe(*made.nan);
    nan_from_infinity_ = had_infinity;
  } else if (made.infinity && infinity_.empty() && !had_infinity && !had_nan) {
    infinity_ = describe(*made.infinity);
  } else if (passed_on_.empty()) {
    passed_on_ = describe(made.nan.value_or(made.infinity.value_or(0)));
  }
}

void FirstNonFinite::saw(const Op& op, const Inputs& inputs, const Tensor& output) {
  if (const Ref<Node>& node = detail::TensorAccess::node(output); node && node->op() == &op)
    if (std::string path = NameScope::path(); !path.empty())
      paths_.emplace(node->sequence(), std::move(path));
  if (op.spec.fills) return;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    if (output.shares_storage(inputs[i]))
      return;  // the output is a view; its memory may still be uninitialized
    operands.push_back({"input " + std::to_string(i), &inputs[i]});
  }
  check_result(std::string(op.name()), output, operands);
}

// Checks the gradients that the vjp returned. A backward kernel computes them without an op, so
// saw() does not receive them.
void FirstNonFinite::saw_gradients(Node& node, const Vjp& v, Grads& grads) {
  std::vector<Operand> operands{{"the gradient of the result", &v.grad}};
  for (std::size_t i = 0; i < node.inputs().size(); ++i)
    if (node.inputs()[i].value.defined())
      operands.push_back({"input " + std::to_string(i), &node.inputs()[i].value});
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined())
      check_result("gradient of input " + std::to_string(i), grads[i], operands);
}

}  // namespace heed::autograd
