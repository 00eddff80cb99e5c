// The definitions of the templates of graph.h: a node with the type of its vjp, and its memory.
#pragma once

#include <new>

#include "autograd/graph/graph.h"

namespace heed::autograd {

/// Returns true if record() has to create a node, which means that recording is enabled and an
/// input needs a gradient. Otherwise notifies the observer and returns false. If `output` is an
/// input or has a node, first replaces it by a view, so that the node of the op is not the node of
/// another tensor.
bool must_record(const Op& op, const Inputs& inputs, Tensor& output);
/// Fills a new node from the inputs of the op, sets it as the node of `output`, and notifies the
/// observer. The list of inputs is created at the address `memory`.
void attach(Node* node, const Inputs& inputs, const Tensor& output, Node::Input* memory);
/// Returns the gradients of a fused op by a backward pass through its definition. Defined in
/// engine/engine.cpp.
Grads through_definition(const DifferentiableFunction& definition, const Vjp& v);

/// Node of an op with a vjp.
template <class F>
class VjpNode final : public Node {
 public:
  /// Creates the node; `f` is the vjp.
  VjpNode(const Op& op, const Tensor& y, std::size_t allocated, F&& f)
      : Node(&op, y, allocated), f_(std::move(f)) {}
  Grads vjp(const Vjp& v) override { return f_(v); }

 private:
  F f_;
};

template <class F>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, F vjp) {
  if (!must_record(op, inputs, output)) return output;
  // The node and its list of inputs are in one block of the pool.
  static_assert(sizeof(VjpNode<F>) % alignof(Node::Input) == 0);
  const std::size_t bytes = sizeof(VjpNode<F>) + inputs.size() * sizeof(Node::Input);
  auto* memory = static_cast<std::byte*>(pool_allocate(bytes));
  auto* node = new (memory) VjpNode<F>(op, output, bytes, std::move(vjp));
  attach(node, inputs, output, reinterpret_cast<Node::Input*>(memory + sizeof(VjpNode<F>)));
  return output;
}

template <class Definition, class Backward>
Tensor record(const Op& op, const Inputs& inputs, Tensor output, Definition definition,
              Backward backward) {
  return record(
      op, inputs, std::move(output),
      [definition = std::move(definition), backward = std::move(backward)](const Vjp& v) -> Grads {
        return v.allows_kernel() ? backward(v) : through_definition(definition, v);
      });
}

}  // namespace heed::autograd
