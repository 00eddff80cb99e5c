// The parts of a Tensor that only autograd's own files use: its node in the graph, its storage and
// views of it. No other header includes this file, and no umbrella header does.
#pragma once

#include <utility>

#include "autograd/tensor/tensor.h"

namespace heed::autograd::detail {

struct TensorAccess {
  /// Returns a tensor of this layout over `storage`.
  static Tensor make(DType dtype, const Layout& layout, Ref<Storage> storage) {
    return {dtype, layout, std::move(storage)};
  }
  /// Returns x's storage and dtype under another layout, without history.
  static Tensor view(const Tensor& x, const Layout& layout) {
    return {x.dtype(), layout, x.impl_->storage};
  }
  static const Ref<Storage>& storage(const Tensor& x) { return x.impl_->storage; }
  /// Returns how x was computed; null if no gradient flows to it. ValueError if x is undefined.
  static const Ref<Node>& node(const Tensor& x) { return x.node(); }
  static void set_node(const Tensor& x, Ref<Node> node);
  /// True if this handle is the only one and no other tensor shares its storage.
  static bool is_sole_owner(const Tensor& x) {
    return x.impl_->refs == 1 && x.impl_->storage->refs == 1;
  }
};

}  // namespace heed::autograd::detail
