#include "autograd/tensor/tensor.h"

#include <algorithm>

#include "autograd/base/strided.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {

// Not inline, so that the code that uses tensors stays small.
Tensor::~Tensor() = default;

void Tensor::throw_undefined() { fail<ValueError>("tensor", "is undefined (default-constructed)"); }

bool Tensor::shares_storage(const Tensor& other) const {
  return defined() && other.defined() && impl_->storage == other.impl_->storage;
}

std::uint32_t Tensor::version() const { return get().storage->version; }

void Tensor::require_one(std::string_view op) const {
  check(numel() == 1, op, "needs one element, got shape ", shape());
}

void Tensor::fail_dtype(std::string_view op, DType wanted) const {
  fail<DTypeError>(op, "requested ", wanted, " from a ", dtype(),
                   " tensor; convert the tensor with to(x, dtype)");
}

double Tensor::item() const {
  require_one("item");
  return dispatch_any(dtype(), [&]<class T> { return double(real(*data<T>())); });
}

double Tensor::at(std::initializer_list<Index> index) const {
  check(int(index.size()) == rank(), "at", "needs ", rank(), " indices for shape ", shape(),
        ", got ", index.size());
  Index offset = 0;
  int axis = 0;
  for (const Index i : index) {
    const Index n = shape()[axis];
    check(i >= -n && i < n, "at", "index ", i, " is out of range for axis ", axis, " of ", shape());
    offset += (i < 0 ? i + n : i) * strides()[axis++];
  }
  return dispatch_any(dtype(), [&]<class T> { return double(real(data<T>()[offset])); });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const T* in = data<T>();
  std::vector<T> out(static_cast<std::size_t>(numel()));
  std::size_t next = 0;
  StridedLoop<1>(shape(), {&strides()}).run([&](const auto& offset, Index n, const auto& s) {
    for (Index i = 0; i < n; ++i) out[next++] = in[offset[0] + i * s[0]];
  });
  return out;
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<Index> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;
template std::vector<Tracked> Tensor::to_vector() const;

Tensor Tensor::detach() const { return detail::TensorAccess::view(*this, layout()); }

}  // namespace heed::autograd
