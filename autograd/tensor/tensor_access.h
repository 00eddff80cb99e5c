// Access to the private members of Tensor for autograd's own files: its storage, its views and its
// node in the graph. No header of the libraries includes this file.
#pragma once

#include <utility>

#include "autograd/tensor/tensor.h"

namespace heed::autograd::detail {

/// Friend of Tensor that gives access to its private members.
struct TensorAccess {
  /// Returns a tensor with this layout, whose data are in `storage`.
  static Tensor make(DType dtype, const Layout& layout, Ref<Storage> storage) {
    return {dtype, layout, std::move(storage)};
  }
  /// Returns a tensor with the storage and dtype of x and another layout. It is not part of a
  /// graph.
  static Tensor view(const Tensor& x, const Layout& layout) {
    return {x.dtype(), layout, x.impl_->storage};
  }
  /// Returns the storage of x, which must be defined.
  static const Ref<Storage>& storage(const Tensor& x) { return x.impl_->storage; }
  /// Returns the node of x in the graph, or null if x does not require grad. Throws ValueError if x
  /// is undefined.
  static const Ref<Node>& node(const Tensor& x) { return x.node(); }
  /// Sets the node of x in the graph.
  static void set_node(const Tensor& x, Ref<Node> node);
  /// Returns true if this is the only handle of the tensor and no other tensor shares its storage.
  static bool is_sole_owner(const Tensor& x) {
    return x.impl_->refs == 1 && x.impl_->storage->refs == 1;
  }
};

}  // namespace heed::autograd::detail
