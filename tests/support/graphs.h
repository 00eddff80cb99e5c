// Searches the graph of a tensor for an op.
#pragma once

#include <string_view>
#include <vector>

#include "autograd/graph/graph.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd::testing {

/// Returns true if the graph of y contains an op with the name `op`.
inline bool has_op(const Tensor& y, std::string_view op) {
  std::vector<Ref<Node>> open = {detail::TensorAccess::node(y)};
  while (!open.empty()) {
    const Ref<Node> node = open.back();
    open.pop_back();
    if (!node) continue;
    if (node->op() && node->op()->name() == op) return true;
    for (const Node::Input& input : node->inputs()) open.push_back(input.node);
  }
  return false;
}

}  // namespace heed::autograd::testing
