// The class Tensor: a handle to a strided view of memory. Ops are free functions (ops.h). The
// methods here inspect a tensor or mark it for differentiation.
//
// Methods that change the tensor, such as requires_grad_() and zero_grad(), are const because a
// Tensor is a handle, like a pointer. Instead of operators < and [], use lt(), slice() or
// select() in ops.h.
//
// If a tensor is undefined, all its methods throw ValueError except defined(), operator bool,
// requires_grad(), is_same() and shares_storage().
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "autograd/base/dtype.h"
#include "autograd/base/shape.h"
#include "autograd/tensor/storage.h"

namespace heed::autograd {

class Generator;
class Node;  // the op and the inputs that a tensor was computed from (graph.h)
namespace detail {
struct TensorAccess;  // access for autograd's own files (tensor_access.h)
}

/// Handle of a gradient hook that Tensor::register_hook() added. The hook stays if the handle is
/// destroyed.
struct HookHandle {
  /// Removes the hook, so that it is not called any more. A second call does nothing.
  std::function<void()> remove = [] {};
};

/// A tensor of up to eight axes and one dtype.
///
/// Copies of a Tensor refer to the same tensor: they share data, gradient and hooks. A
/// default-constructed Tensor is undefined. It means "none", for example no bias or no gradient.
/// Several threads may read one tensor, and may run backward passes through graphs that share only
/// leaves. While a thread changes a tensor, no other thread may use it.
class Tensor {
 public:
  ///@{
  /// Creates an undefined tensor, or another handle of an existing tensor.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ///@}
  ///@{
  /// Makes this handle refer to another tensor. Does not copy data; see copy_() for that.
  Tensor& operator=(const Tensor&) = default;
  Tensor& operator=(Tensor&&) noexcept = default;
  ///@}
  ~Tensor();

  ///@{
  /// Returns false if the tensor is undefined (default-constructed).
  bool defined() const { return bool(impl_); }
  explicit operator bool() const { return defined(); }
  ///@}
  /// Returns the size of each axis.
  const Shape& shape() const { return layout().shape; }
  /// Returns the stride of each axis, in elements.
  const Strides& strides() const { return layout().strides; }
  /// Returns shape, strides and offset.
  const Layout& layout() const { return get().layout; }
  /// Returns the type of the elements.
  DType dtype() const { return get().dtype; }
  /// Returns the number of axes.
  int rank() const { return shape().rank(); }
  /// Returns the size of one axis. A negative axis counts from the back. Throws ShapeError if the
  /// axis is out of range.
  Index size(Index axis) const { return shape().data()[normalized_axis("size", shape(), axis)]; }
  /// Returns the number of elements.
  Index numel() const { return shape().numel(); }
  /// Returns true if the elements are adjacent and in row-major order.
  bool is_contiguous() const { return layout().is_contiguous(); }
  /// Returns true if both handles refer to the same tensor. Values are not compared.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /// Returns true if both tensors are defined and are views of the same storage.
  bool shares_storage(const Tensor& other) const;
  /// Returns the number of in-place writes to the storage so far.
  std::uint32_t version() const;

  /// Returns a pointer to the element with index [0, ..., 0]. The other elements are at the offsets
  /// that strides() determines; use contiguous(x) to get adjacent elements. Throws DTypeError if T
  /// is not the C++ type of the dtype.
  template <class T>
  const T* data() const {
    require_dtype("data", kDTypeOf<T>);
    return reinterpret_cast<const T*>(raw());
  }
  /// Returns a pointer like that of data(), but for writing. Use it only to fill a new tensor that
  /// no op has used yet. For other tensors use fill_() or copy_(), because these functions update
  /// version().
  template <class T>
  T* mutable_data() const {
    require_dtype("data", kDTypeOf<T>);
    return reinterpret_cast<T*>(raw());
  }
  /// Returns the only element as a double. An int64 beyond 2^53 is rounded. Throws ShapeError
  /// unless numel() == 1.
  double item() const;
  /// Returns the only element without conversion. Throws ShapeError unless numel() == 1, and
  /// DTypeError if T is not the C++ type of the dtype.
  template <class T>
  T item() const {
    require_one("item");
    require_dtype("item", kDTypeOf<T>);
    return *reinterpret_cast<const T*>(raw());
  }
  /// Returns one element as a double. An int64 beyond 2^53 is rounded. `index` contains one entry
  /// per axis; negative entries count from the back. Throws ShapeError if the number of entries is
  /// wrong or if an entry is out of range.
  double at(std::initializer_list<Index> index) const;
  /// Returns a copy of all elements in row-major order. Throws DTypeError if T is not the C++ type
  /// of the dtype.
  template <class T>
  std::vector<T> to_vector() const;

  /// Marks a leaf so that gradients with respect to it are computed, and returns the tensor. Throws
  /// DTypeError if the dtype is int64 or bool8. Throws ValueError for the result of a recorded op;
  /// for its gradient use retain_grad() or grad(y, {x}).
  Tensor requires_grad_() const;
  /// Returns true if the tensor is a leaf marked by requires_grad_(), or if a recorded op computed
  /// it from such a leaf.
  bool requires_grad() const;
  /// Returns true unless the tensor is the result of an op that was recorded in the graph.
  bool is_leaf() const;
  /// Returns the gradient that backward() has accumulated, or an undefined tensor if there is none.
  /// Throws ValueError for the result of an op unless retain_grad() was called.
  Tensor grad() const;
  /// Replaces the accumulated gradient, as `x.grad = g` in PyTorch, or removes it if g is
  /// undefined. Throws ValueError unless this is a leaf that requires grad, and ShapeError or
  /// DTypeError unless g has its shape and dtype.
  void set_grad(const Tensor& g) const;
  /// Removes the accumulated gradient, so that grad() returns an undefined tensor.
  void zero_grad() const;
  /// Makes backward() keep the gradient of this tensor even if it is the result of an op. Call it
  /// before backward(). Returns the tensor. Throws ValueError unless requires_grad().
  Tensor retain_grad() const;
  /// Adds a hook: f(gradient) is called when the gradient of this tensor is complete. If f returns
  /// a defined tensor, that tensor replaces the gradient. Hooks run in the order of registration.
  /// Throws ValueError unless requires_grad().
  HookHandle register_hook(std::function<Tensor(const Tensor&)> f) const;
  /// Returns a tensor that shares the storage but is not part of the graph.
  Tensor detach() const;

 private:
  friend struct detail::TensorAccess;
  struct Impl {
    std::atomic<std::uint32_t> refs{0};
    DType dtype;
    Layout layout;
    Ref<Storage> storage;
    Ref<Node> node;
    Impl(DType d, const Layout& l, Ref<Storage> s);
    ~Impl();
    static void destroy(Impl* impl);
  };
  Tensor(DType dtype, const Layout& layout, Ref<Storage> storage);
  const Ref<Node>& node() const { return get().node; }
  void require_one(std::string_view op) const;
  void require_dtype(std::string_view op, DType wanted) const {
    if (dtype() != wanted) [[unlikely]]
      fail_dtype(op, wanted);
  }
  [[noreturn]] void fail_dtype(std::string_view op, DType wanted) const;
  [[noreturn]] static void throw_undefined();
  const Impl& get() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  std::byte* raw() const {
    return impl_->storage->data() + impl_->layout.offset * element_size(impl_->dtype);
  }
  Ref<Impl> impl_;
};

/// Prints a tensor as PyTorch does: nested brackets, four decimals, and "..." in place of the inner
/// elements if the tensor has more than 1000 elements.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace heed::autograd
