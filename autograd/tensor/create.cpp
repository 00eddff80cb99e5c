#include "autograd/tensor/create.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

template <class T, class Range>
Tensor from_range(const Range& values, const Shape& shape) {
  check(Index(values.size()) == shape.numel(), "from_data", "shape ", shape, " holds ",
        shape.numel(), " values, got ", values.size());
  Tensor x = empty(shape, kDTypeOf<T>);
  std::copy(values.begin(), values.end(), x.mutable_data<T>());
  return x;
}

template <class T>
std::span<T> elements(const Tensor& x) {
  return {x.mutable_data<T>(), std::size_t(x.numel())};
}

// Returns a float32 or float64 tensor. draw(out) fills its elements, where `out` is a span of them.
template <class F>
Tensor random_tensor(const Shape& shape, DType dtype, F draw) {
  Tensor x = empty(shape, dtype);
  dtype == float32 ? draw(elements<float>(x)) : draw(elements<double>(x));
  return x;
}

// Returns a tensor whose element i, in row-major order, is value(i). value() returns a double.
template <class F>
Tensor generate(std::string_view op, const Shape& shape, DType dtype, F value) {
  Tensor x = empty(shape, dtype);
  const Index n = x.numel();
  dispatch_any(dtype, [&]<class T> {
    T* out = x.mutable_data<T>();
    for (Index i = 0; i < n; ++i) out[i] = checked_cast<T>(op, value(i));
  });
  return x;
}

Tensor from_doubles(std::span<const double> values, const Shape& shape, DType dtype) {
  return generate("tensor", shape, dtype, [&](Index i) { return values[std::size_t(i)]; });
}

}  // namespace

Tensor empty(const Shape& shape, DType dtype) {
  const Index n = checked_numel("empty", shape);
  return detail::TensorAccess::make(dtype, Layout::contiguous(shape),
                                    Storage::make(std::size_t(n * element_size(dtype))));
}

Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype()); }

Tensor full(const Shape& shape, double value, DType dtype) {
  Tensor x = empty(shape, dtype);
  dispatch_any(dtype, [&]<class T> {
    std::fill_n(x.mutable_data<T>(), x.numel(), checked_cast<T>("full", value));
  });
  return x;
}
Tensor zeros(const Shape& shape, DType dtype) {
  Tensor x = empty(shape, dtype);
  Storage& storage = *detail::TensorAccess::storage(x);
  // In every dtype, all bytes of the value 0 are 0.
  std::memset(storage.data(), 0, storage.bytes);
  return x;
}
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones_like(const Tensor& x) { return full(x.shape(), 1, x.dtype()); }
Tensor full_like(const Tensor& x, double value) { return full(x.shape(), value, x.dtype()); }

Tensor arange(double start, double end, double step, DType dtype) {
  const double count = std::ceil((end - start) / step);
  check<ValueError>(step != 0 && std::isfinite(step) && std::isfinite(count), "arange",
                    "needs a finite range and a finite step other than 0, got ", start, " to ", end,
                    " by ", step);
  check<ValueError>(count < 0x1p40, "arange", "needs fewer than 2^40 elements, got ", start, " to ",
                    end, " by ", step);
  return generate("arange", {Index(std::max(0.0, count))}, dtype,
                  [=](Index i) { return start + double(i) * step; });
}
Tensor arange(Index end) { return arange(0, double(end)); }

Tensor eye(Index n, Index m, DType dtype) {
  if (m < 0) m = n;
  Tensor x = zeros({n, m}, dtype);
  dispatch_any(dtype, [&]<class T> {
    for (Index i = 0; i < std::min(n, m); ++i) x.mutable_data<T>()[i * m + i] = T(1);
  });
  return x;
}

template <Element T>
Tensor from_data(std::span<const T> values, const Shape& shape) {
  return from_range<T>(values, shape);
}
template Tensor from_data(std::span<const float>, const Shape&);
template Tensor from_data(std::span<const double>, const Shape&);
template Tensor from_data(std::span<const Index>, const Shape&);
template Tensor from_data(std::span<const bool>, const Shape&);
template Tensor from_data(std::span<const Tracked>, const Shape&);

Tensor from_data(const std::vector<bool>& values, const Shape& shape) {
  return from_range<bool>(values, shape);
}

Tensor tensor(double value, DType dtype) { return full({}, value, dtype); }
template <>
Tensor tensor<double>(std::initializer_list<double> values, DType dtype) {
  return from_doubles(std::span(values.begin(), values.size()), {Index(values.size())}, dtype);
}
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype) {
  std::vector<double> values;
  const std::size_t columns = rows.size() ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    check(row.size() == columns, "tensor", "rows differ in length: ", columns, " and ", row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return from_doubles(values, {Index(rows.size()), Index(columns)}, dtype);
}

Tensor rand(const Shape& shape, DType dtype, Generator& g) {
  return random_tensor(shape, dtype, [&g](auto out) { g.uniform(out, 0, 1); });
}
Tensor randn(const Shape& shape, DType dtype, Generator& g) {
  return random_tensor(shape, dtype, [&g](auto out) { g.normal(out, 0, 1); });
}
Tensor randint(Index low, Index high, const Shape& shape, Generator& g) {
  Tensor x = empty(shape, int64);
  g.randint(elements<std::int64_t>(x), low, high);
  return x;
}
Tensor randperm(Index n, Generator& g) {
  Tensor x = empty({n}, int64);
  g.randperm(elements<std::int64_t>(x));
  return x;
}
Tensor bernoulli(double p, const Shape& shape, Generator& g) {
  Tensor x = empty(shape, bool8);
  std::vector<std::uint8_t> bits(std::size_t(x.numel()));
  g.bernoulli(bits, p);
  std::copy(bits.begin(), bits.end(), x.mutable_data<bool>());
  return x;
}

}  // namespace heed::autograd
