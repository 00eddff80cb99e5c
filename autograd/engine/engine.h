// Differentiation: reverse mode over the recorded graph, and derivatives built on it.
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
  /// Gradient of the loss with respect to y, with y's shape and dtype. If y has one element,
  /// grad_output may be undefined, which means 1.
  Tensor grad_output = {};
  bool create_graph = false;  ///< true: the gradients are differentiable; implies retain_graph
  bool retain_graph = false;  ///< true: keeps saved values for a later backward pass
  /// true: a tensor that y does not depend on gets gradient 0 instead of an error.
  bool allow_unused = false;
};

///@{
/// Returns the gradients of y with respect to the tensors of `wrt`, in the order of `wrt`. Each
/// gradient has the shape and dtype of its tensor. If y has several elements, options.grad_output
/// has their weights. This function does not change .grad of any tensor.
///
/// Throws ValueError if y has no graph, if a tensor of `wrt` does not require grad, if an earlier
/// backward pass freed the graph, or if y does not depend on a tensor of `wrt` (unless
/// allow_unused). Throws ShapeError or DTypeError if grad_output does not fit y, and ShapeError if
/// it is missing and y has several elements.
std::vector<Tensor> grad(const Tensor& y, std::span<const Tensor> wrt,
                         const GradOptions& options = {});
std::vector<Tensor> grad(const Tensor& y, std::initializer_list<Tensor> wrt,
                         const GradOptions& options = {});
///@}
/// Returns the gradient of y with respect to one tensor. Throws the errors of grad() above.
Tensor grad(const Tensor& y, const Tensor& wrt, const GradOptions& options = {});

/// Adds the gradient of the loss to .grad of every leaf that requires grad, and of every tensor
/// with retain_grad(). A new .grad is row-major and shares its memory with no other tensor. If a
/// .grad exists, the gradient is added in place; but if another handle or view of it exists, if it
/// has a graph, or with create_graph, .grad becomes a new tensor. Threads may add to the .grad of
/// the same leaves. allow_unused has no effect. Throws the errors of grad().
void backward(const Tensor& loss, const GradOptions& options = {});

// ---- directional derivatives, Hessian-vector products and Jacobians

///@{
/// Returns the product of the Hessian of a scalar function f and v, as one tensor per input. It is
/// computed by double backward. Throws ShapeError unless f returns one element and v has one tensor
/// per input, with the shape of this input. Throws ValueError if the result of f has no graph.
std::vector<Tensor> hvp(const DifferentiableFunction& f, Args inputs, Args v);
Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v);
///@}

/// Returns the derivative of y when x moves in `direction`: the Jacobian of y with respect to x,
/// times `direction`. The result has y's shape and no graph. The function runs two backward passes,
/// through the graph of y and through that of the gradient, and works for float32 and float64.
/// Throws ShapeError or DTypeError unless `direction` has x's shape and dtype. Throws ValueError if
/// y does not depend on x.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& direction);

///@{
/// Returns the Jacobian of f at its inputs: for each input x, a tensor whose axes are the axes of
/// f's result followed by the axes of x. Runs one backward pass per element of f's result.
std::vector<Tensor> jacobian(const DifferentiableFunction& f, Args inputs);
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);
///@}

}  // namespace heed::autograd
