#include "nn/io/tensor_difference.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <type_traits>
#include <unordered_map>

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

template <class T>
bool have_equal_bits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
  } else {
    return a == b;
  }
}

// Returns |b - a| of elements whose bits differ. The difference of two int64 is not rounded before
// it becomes a double.
template <class T>
double distance(T a, T b) {
  if constexpr (std::same_as<T, std::int64_t>)
    return double(a < b ? std::uint64_t(b) - std::uint64_t(a)
                        : std::uint64_t(a) - std::uint64_t(b));
  else
    return std::abs(double(b) - double(a));
}

// Sets `largest` to x if x is larger or NaN. If `largest` is NaN, it stays NaN.
void update_largest(double& largest, double x) {
  if (x > largest || std::isnan(x)) largest = x;
}

template <class T>
TensorDifference difference_of_elements(const T* a, const T* b, std::int64_t count,
                                        const Tolerance& tolerance) {
  TensorDifference result;
  double sum_a = 0, sum_b = 0, sum_difference = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = double(a[i]), y = double(b[i]);
    sum_a += x * x;
    sum_b += y * y;
    if (have_equal_bits(a[i], b[i])) continue;
    if (!result.first) result.first = i;
    const double d = distance(a[i], b[i]);
    // If a is infinite, the tolerance is infinite or NaN, so d must also be finite.
    if (!(d <= tolerance.atol + tolerance.rtol * std::abs(x) && std::isfinite(d))) ++result.beyond;
    sum_difference += d * d;
    update_largest(result.max_abs, d);
    update_largest(result.max_rel, d == 0 ? 0 : d / std::abs(x));
  }
  result.norm_a = std::sqrt(sum_a), result.norm_b = std::sqrt(sum_b);
  result.norm_difference = std::sqrt(sum_difference);
  return result;
}

}  // namespace

TensorDifference compare_tensors(const Tensor& a, const Tensor& b, const Tolerance& tolerance) {
  constexpr const char* kName = "compare_tensors";
  check(a.shape() == b.shape(), kName, "needs equal shapes, got ", a.shape(), " and ", b.shape());
  check<DTypeError>(a.dtype() == b.dtype(), kName, "needs equal dtypes, got ", a.dtype(), " and ",
                    b.dtype());
  check<DTypeError>(a.dtype() != tracked64, kName, "needs float32, float64, int64 or bool8, got ",
                    a.dtype());
  const Tensor x = contiguous(a.detach()), y = contiguous(b.detach());
  return dispatch_any(a.dtype(), [&]<class T>() -> TensorDifference {
    if constexpr (std::is_arithmetic_v<T>)
      return difference_of_elements(x.data<T>(), y.data<T>(), x.numel(), tolerance);
    else
      return {};  // rejected above
  });
}

std::string NamedDifference::text() const {
  if (!b.defined()) return "only in A";
  if (!a.defined()) return "only in B";
  if (a.shape() != b.shape()) return "B has shape " + to_text(b.shape());
  if (!elements) return fmt::format("{}, B has {}", dtype_name(a.dtype()), dtype_name(b.dtype()));
  if (elements->equal_bits()) return "";
  const std::int64_t at = *elements->first;
  const auto value = [&](const Tensor& t) {
    return to(reshape(t.detach(), {-1}), float64).to_vector<double>()[std::size_t(at)];
  };
  return fmt::format("at {} is {:.9g}, not {:.9g}", to_text(unravel(at, a.shape())), value(b),
                     value(a));
}

std::vector<NamedDifference> compare_files(const SafeTensors& a, const SafeTensors& b,
                                           const Tolerance& tolerance) {
  std::unordered_map<std::string_view, Tensor> others;
  for (const NamedTensor& t : b.tensors) others[t.name] = t.tensor;
  std::vector<NamedDifference> differences;
  for (const auto& [name, x] : a.tensors) {
    NamedDifference& d = differences.emplace_back(NamedDifference{name, x, {}, {}});
    const auto found = others.find(name);
    if (found == others.end()) continue;
    d.b = found->second;
    others.erase(found);
    if (x.shape() == d.b.shape() && x.dtype() == d.b.dtype())
      d.elements = compare_tensors(x, d.b, tolerance);
  }
  for (const auto& [name, y] : b.tensors)
    if (others.contains(name)) differences.push_back({name, {}, y, {}});
  return differences;
}

}  // namespace heed::nn
