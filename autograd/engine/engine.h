// Differentiation: reverse mode over the recorded graph, forward mode, and derivatives built on
// them.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "autograd/graph/check_registry.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Options of grad() and backward().
struct GradOptions {
  /// Gradient of the loss by y, of y's shape and dtype. It may be undefined if y has one element;
  /// its value is then 1.
  Tensor grad_output = {};
  bool create_graph = false;  ///< true: the gradients are differentiable; also keeps the graph
  bool retain_graph = false;  ///< true: keeps saved values, so that a later pass may use this graph
  /// true: a tensor that y does not depend on gets gradient 0 instead of an error.
  bool allow_unused = false;
};

///@{
/// Returns the gradients of y with respect to each tensor of `wrt`, in that order, each with the
/// shape and dtype of its tensor. The gradients are weighted by options.grad_output. Changes no
/// .grad.
///
/// Throws ValueError if y has no graph, if a tensor of `wrt` does not require grad, if an earlier
/// pass freed the graph, or if y does not depend on a tensor of `wrt` (unless allow_unused). Throws
/// ShapeError or DTypeError if grad_output does not fit y.
std::vector<Tensor> grad(const Tensor& y, std::span<const Tensor> wrt,
                         const GradOptions& options = {});
std::vector<Tensor> grad(const Tensor& y, std::initializer_list<Tensor> wrt,
                         const GradOptions& options = {});
///@}
/// Returns the gradient of y with respect to one tensor. Throws the errors of grad() above.
Tensor grad(const Tensor& y, const Tensor& wrt, const GradOptions& options = {});

/// Adds the gradient of the loss to .grad of every leaf that requires grad, and of every tensor
/// with retain_grad(). Each .grad is row-major and shares its memory with no other tensor.
/// allow_unused has no effect. Throws the errors of grad().
void backward(const Tensor& loss, const GradOptions& options = {});

// ---- derivatives built on these

/// Result of jvp().
struct JvpResult {
  Tensor value;    ///< f(inputs)
  Tensor tangent;  ///< derivative of f in the direction of the tangents, of value's shape
};
/// Computes f and its directional derivative by dual numbers (forward mode): exact, without a step
/// size. f may call anything differentiable, also grad(). Throws DTypeError unless inputs and
/// tangents are float64, and ShapeError unless each tangent has the shape of its input.
JvpResult jvp(const DifferentiableFunction& f, Args inputs, Args tangents);

///@{
/// Returns the Hessian of a scalar function f times v, one tensor per input, by double backward.
/// Throws ShapeError unless there is one v per input, of its shape.
std::vector<Tensor> hvp(const DifferentiableFunction& f, Args inputs, Args v);
Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v);
///@}

/// Returns the change of y when x moves in this direction: the Jacobian of y by x times
/// `direction`. The result has y's shape and no graph. Works for any floating dtype, by two
/// backward passes through the graph of y. `direction` has x's shape and dtype, else ShapeError or
/// DTypeError. Throws ValueError if y does not depend on x.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& direction);

///@{
/// Returns the Jacobian of f at its inputs: for each input x, a tensor of shape [f.shape...,
/// x.shape...]. Runs one backward pass per element of f's result.
std::vector<Tensor> jacobian(const DifferentiableFunction& f, Args inputs);
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);
///@}

}  // namespace heed::autograd
