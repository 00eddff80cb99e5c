#include "autograd/tensor/copy.h"

#include <array>
#include <cstring>

#include "autograd/base/strided.h"
#include "autograd/tensor/create.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace detail {
namespace {

// Copies n elements of Size bytes each. Strides are in elements.
template <std::size_t Size>
void copy_sized(std::byte* y, Index y_stride, const std::byte* x, Index x_stride, Index n) {
  constexpr auto size = Index(Size);
  if (x_stride == 0) {
    std::array<std::byte, Size> value;
    std::memcpy(value.data(), x, Size);
    for (Index i = 0; i < n; ++i) std::memcpy(y + i * y_stride * size, value.data(), Size);
  } else {
    for (Index i = 0; i < n; ++i)
      std::memcpy(y + i * y_stride * size, x + i * x_stride * size, Size);
  }
}

}  // namespace

Elements::Elements(const Tensor& x)
    : size(element_size(x.dtype())),
      first(TensorAccess::storage(x)->data() + x.layout().offset * size) {}

void copy_elements(std::byte* y, Index y_stride, const std::byte* x, Index x_stride, Index n,
                   Index size) {
  if (y_stride == 1 && x_stride == 1)
    std::memcpy(y, x, std::size_t(n * size));
  else if (size == 1)
    copy_sized<1>(y, y_stride, x, x_stride, n);
  else if (size == 4)
    copy_sized<4>(y, y_stride, x, x_stride, n);
  else if (size == 8)
    copy_sized<8>(y, y_stride, x, x_stride, n);
  else
    copy_sized<sizeof(Tracked)>(y, y_stride, x, x_stride, n);
}

void copy_into(const Tensor& y, const Tensor& x) {
  const Elements to(y), from(x);
  const Index size = from.size;
  // A short copy takes less time than the setup of a StridedLoop.
  if (x.numel() <= 64 && x.is_contiguous() && y.is_contiguous()) {
    std::memcpy(to.at(0), from.at(0), std::size_t(x.numel() * size));
    return;
  }
  for_each_run(StridedLoop<2>(x.shape(), {&y.strides(), &x.strides()}),
               [&](const auto& at, Index n, const auto& s) {
                 copy_elements(to.at(at[0]), s[0], from.at(at[1]), s[1], n, size);
               });
}

Tensor row_major(Tensor x) {
  if (x.defined() && !x.is_contiguous()) return detached_copy(x);
  return x;
}

}  // namespace detail

Tensor detached_copy(const Tensor& x) {
  Tensor y = empty_like(x);
  detail::copy_into(y, x);
  return y;
}

}  // namespace heed::autograd
