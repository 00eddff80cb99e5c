// Derivatives that are built on grad().
#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {

namespace {

std::vector<Tensor> as_leaves(Args inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_());
  return leaves;
}

}  // namespace

std::vector<Tensor> hvp(const DifferentiableFunction& f, Args inputs, Args v) {
  check(inputs.size() == v.size(), "hvp", "needs a v per input, got ", v.size(), " for ",
        inputs.size());
  for (std::size_t i = 0; i < v.size(); ++i)
    check(v[i].shape() == inputs[i].shape(), "hvp", "input ", i, " has shape ", inputs[i].shape(),
          ", its v has shape ", v[i].shape(), "; needs equal shapes");
  const GradMode recording(true);
  std::vector<Tensor> leaves = as_leaves(inputs);
  const auto first = grad(f(leaves), leaves, {.create_graph = true, .allow_unused = true});
  Tensor along;  // sum of the inner products <gradient, v>; constant gradients are omitted
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!first[i].requires_grad()) continue;
    const Tensor term = sum(first[i] * v[i]);
    along = along.defined() ? along + term : term;
  }
  if (along.defined()) return grad(along, leaves, {.allow_unused = true});
  for (Tensor& x : leaves) x = zeros_like(x);  // all gradients are constant, so the Hessian is 0
  return leaves;
}

Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v) {
  return hvp([&f](Args t) { return f(t[0]); }, Args(&x, 1), Args(&v, 1))[0];
}

// Let J be the Jacobian of y with respect to x. The gradient g = J^T u is linear in u. The gradient
// of the inner product <g, direction> with respect to u is therefore J times `direction`.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& direction) {
  const Tensor u = zeros(y.shape(), y.dtype()).requires_grad_();
  const Tensor g = grad(y, x, {.grad_output = u, .create_graph = true});
  return grad(g, u, {.grad_output = direction, .allow_unused = true}).detach();
}

std::vector<Tensor> jacobian(const DifferentiableFunction& f, Args inputs) {
  const GradMode recording(true);
  const std::vector<Tensor> leaves = as_leaves(inputs);
  const Tensor y = f(leaves);
  // rows[k]: gradients with respect to input k, one per element of y.
  std::vector<std::vector<Tensor>> rows(inputs.size());
  for (Index i = 0; i < y.numel() && y.requires_grad(); ++i) {
    const Tensor unit = eq(arange(0, double(y.numel()), 1, int64), double(i));
    const Tensor e = reshape(to(unit, y.dtype()), y.shape());
    const auto row =
        grad(y, leaves, {.grad_output = e, .retain_graph = true, .allow_unused = true});
    for (std::size_t k = 0; k < row.size(); ++k) rows[k].push_back(row[k]);
  }
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const Shape shape = y.shape().joined(inputs[k].shape());
    result.push_back(rows[k].empty() ? zeros(shape, inputs[k].dtype())
                                     : reshape(stack(rows[k], 0), shape));
  }
  return result;
}

Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return jacobian([&f](Args t) { return f(t[0]); }, Args(&x, 1))[0];
}

}  // namespace heed::autograd
