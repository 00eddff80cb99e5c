// The tensor: a handle on a strided view of storage. Ops are free functions (ops.h); the methods
// here only inspect, or mark the tensor for differentiation.
//
// Methods that change what a tensor refers to (requires_grad_, zero_grad, mutable_data) are const,
// because a Tensor is a handle, as a pointer is. There are no operators < and [] by design: lt()
// and slice() or select() in ops.h name what they return.
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
class Node;  // graph.h: what a tensor was computed from
namespace detail {
struct TensorAccess;  // tensor_access.h: for autograd's own files
}

/// Removes a gradient hook: see Tensor::register_hook.
class HookHandle {
 public:
  HookHandle(const HookHandle&);
  HookHandle(HookHandle&&) noexcept;
  HookHandle& operator=(const HookHandle&) = delete;
  ~HookHandle();
  /// The hook no longer runs. Calling it again does nothing.
  void remove();

 private:
  friend class Tensor;
  HookHandle(Ref<Node> node, std::uint64_t id);
  Ref<Node> node_;
  std::uint64_t id_;
};

/// Copies share storage, identity, gradient and hooks. A default-constructed Tensor is undefined:
/// it stands for "none" (no bias, no gradient). Not thread-safe; separate tensors are.
class Tensor {
 public:
  Tensor();
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();

  bool defined() const { return bool(impl_); }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return layout().shape; }
  const Strides& strides() const { return layout().strides; }
  const Layout& layout() const { return get().layout; }
  DType dtype() const { return get().dtype; }
  int rank() const { return shape().rank(); }
  /// Size of one axis, which may be negative; ShapeError when out of range.
  std::int64_t size(std::int64_t axis) const;
  std::int64_t numel() const { return shape().numel(); }
  bool is_contiguous() const { return layout().is_contiguous(); }
  /// True for the very same handle target (not for equal values).
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_storage(const Tensor& other) const;
  /// Counts in-place writes to the storage.
  std::uint32_t version() const;

  /// First element, of type T; DTypeError unless T is the dtype. Follow strides(), or ask for
  /// contiguous(x).
  template <class T>
  const T* data() const {
    require_dtype("data", kDTypeOf<T>);
    return reinterpret_cast<const T*>(raw());
  }
  /// For kernels that fill a fresh output. On anything a graph has seen use fill_ / copy_.
  template <class T>
  T* mutable_data() const {
    require_dtype("data", kDTypeOf<T>);
    return reinterpret_cast<T*>(raw());
  }
  /// Returns the only element as double, which rounds an int64 beyond 2^53; ShapeError unless
  /// numel() == 1.
  double item() const;
  /// Returns the only element as it is stored; ShapeError unless numel() == 1, DTypeError unless T
  /// is the dtype.
  template <class T>
  T item() const {
    require_one("item");
    require_dtype("item", kDTypeOf<T>);
    return *reinterpret_cast<const T*>(raw());
  }
  /// Returns one element as double, which rounds an int64 beyond 2^53. Negative indices count from
  /// the back; ShapeError when out of range.
  double at(std::initializer_list<std::int64_t> index) const;
  /// All elements in row-major order; DTypeError unless T is the dtype.
  template <class T>
  std::vector<T> to_vector() const;

  /// Marks a leaf whose gradient is wanted, and returns it. float32 and float64 only; ValueError on
  /// the result of an op (its gradient: retain_grad, or grad(y, {x})).
  Tensor requires_grad_() const;
  /// True if gradients flow here: a marked leaf, or computed from one.
  bool requires_grad() const;
  /// True unless computed by a recorded op.
  bool is_leaf() const;
  /// Returns the sum that backward() has made, of leaves and after retain_grad(). Undefined before.
  /// ValueError on the result of an op that was not asked to keep it.
  Tensor grad() const;
  /// Makes grad() undefined.
  void zero_grad() const;
  /// backward() will keep this op result's gradient too. Call before backward; returns the tensor.
  Tensor retain_grad() const;
  /// f(gradient) runs when this tensor's gradient is complete; a defined result replaces it.
  /// Hooks run in order of registration. ValueError unless requires_grad().
  HookHandle register_hook(std::function<Tensor(const Tensor&)> f) const;
  /// Returns a tensor on the same storage, without history.
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
  void require_dtype(std::string_view op, DType wanted) const;
  [[noreturn]] static void throw_undefined();
  const Impl& get() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  std::byte* raw() const;
  Ref<Impl> impl_;
};

/// Prints in torch's layout: nested brackets, four decimals, "..." above 1000 elements.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace heed::autograd
