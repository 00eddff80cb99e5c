// Differentiation: reverse mode over the recorded graph, and what is built on it.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "autograd/graph/check_registry.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

struct GradOptions {
  Tensor grad_output = {};    ///< dL/dy, of y's shape; required unless y has one element (then 1)
  bool create_graph = false;  ///< the gradients are differentiable themselves; keeps the graph
  bool retain_graph = false;  ///< keeps saved values, so that this graph can be walked again
  bool allow_unused = false;  ///< gradient 0 for a tensor y does not depend on, instead of an error
};

/// The gradients of y (weighted by grad_output) with respect to each tensor of `wrt`, in order.
/// Touches no .grad. ValueError if y has no graph, if the graph was freed by an earlier walk, or if
/// y does not depend on a tensor of wrt.
std::vector<Tensor> grad(const Tensor& y, std::span<const Tensor> wrt,
                         const GradOptions& options = {});
std::vector<Tensor> grad(const Tensor& y, std::initializer_list<Tensor> wrt,
                         const GradOptions& options = {});
/// The gradient with respect to one tensor.
Tensor grad(const Tensor& y, const Tensor& wrt, const GradOptions& options = {});

/// Adds dL/dx into x.grad() of every leaf that requires grad, and of tensors with retain_grad().
/// Each .grad is row-major and shares its memory with no other tensor.
/// Errors as grad().
void backward(const Tensor& loss, const GradOptions& options = {});

// ---- on top

struct JvpResult {
  Tensor value;    ///< f(inputs)
  Tensor tangent;  ///< its derivative in the direction of the tangents
};
/// Forward mode by dual numbers: exact, no step size. Inputs and tangents are float64 and of equal
/// shapes; f may call anything differentiable, grad() included.
JvpResult jvp(const DifferentiableFunction& f, Args inputs, Args tangents);

/// Hessian of a scalar function f at its inputs, times v, by double backward: one result per input.
/// ShapeError unless there is a v of each input's shape.
std::vector<Tensor> hvp(const DifferentiableFunction& f, Args inputs, Args v);
Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v);

/// Change of y when x moves in this direction, of y's shape and any floating dtype: J times the
/// direction, by two backward passes of y's graph, which must lead to x. The result has no graph.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& direction);

/// The Jacobian of f at its inputs, one per input x: shape [f.shape..., x.shape...]. One backward
/// per output element.
std::vector<Tensor> jacobian(const DifferentiableFunction& f, Args inputs);
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);

}  // namespace heed::autograd
