// The tensor: a handle on a strided view of storage. Ops are free functions (ops.h); the methods
// here only inspect, or mark the tensor for differentiation.
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

/// Removes a gradient hook: see Tensor::register_hook.
class HookHandle {
 public:
  HookHandle(Ref<Node> node, std::uint64_t id);
  HookHandle(const HookHandle&);
  HookHandle(HookHandle&&) noexcept;
  HookHandle& operator=(const HookHandle&) = delete;
  ~HookHandle();
  /// The hook no longer runs. Calling it again does nothing.
  void remove();

 private:
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
    require_dtype(kDTypeOf<T>);
    return reinterpret_cast<const T*>(raw());
  }
  /// For kernels that fill a fresh output. On anything a graph has seen use fill_ / copy_.
  template <class T>
  T* mutable_data() const {
    require_dtype(kDTypeOf<T>);
    return reinterpret_cast<T*>(raw());
  }
  /// The only element, as double; ShapeError unless numel() == 1.
  double item() const;
  /// One element, as double.
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
  /// What backward() has added up: for leaves, and after retain_grad(). Undefined before.
  /// ValueError on the result of an op that was not asked to keep it.
  Tensor grad() const;
  /// Forgets grad().
  void zero_grad() const;
  /// backward() will keep this op result's gradient too. Call before backward; returns the tensor.
  Tensor retain_grad() const;
  /// f(gradient) runs when this tensor's gradient is complete; a defined result replaces it.
  /// Hooks run in order of registration. ValueError unless requires_grad().
  HookHandle register_hook(std::function<Tensor(const Tensor&)> f) const;
  /// The same storage, without a history.
  Tensor detach() const;

  // For autograd's own use.
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
  /// Same storage and dtype under another layout, without history.
  Tensor view(const Layout& layout) const;
  const Ref<Node>& node() const;
  void set_node(Ref<Node> node) const;
  const Ref<Storage>& storage() const { return impl_->storage; }
  /// True if this handle is the only one and no other tensor shares its storage.
  bool is_sole_owner() const { return impl_->refs == 1 && impl_->storage->refs == 1; }
  void require_dtype(DType wanted) const;

 private:
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
