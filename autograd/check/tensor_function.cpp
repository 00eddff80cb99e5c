#include "autograd/check/tensor_function.h"

#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"

namespace heed::autograd {
namespace {

using Tensors = std::vector<Tensor>;

// Splits x into tensors with the shapes of `inputs`.
template <class T>
Tensors split(const Tensors& inputs, const std::vector<T>& x) {
  Tensors out;
  auto next = x.begin();
  for (const Tensor& input : inputs) {
    out.push_back(from_data(std::vector<T>(next, next + input.numel()), input.shape()));
    next += input.numel();
  }
  return out;
}

// Returns the derivative of f at x along `tangent`, computed on dual numbers.
ExactDerivative derivative_by_dual(const DifferentiableFunction& f, const Tensors& inputs,
                                   const Values& x, const Values& tangent) {
  std::vector<Tracked> both;
  for (std::size_t k = 0; k < x.size(); ++k) both.emplace_back(x[k], tangent[k]);
  const GradMode recording(true);  // needed if f calls grad()
  ExactDerivative found;
  for (const Tracked& y : tracked_values(f(split(inputs, both)))) {
    found.derivative.push_back(y.number.tangent);
    found.terms.push_back(y.terms);
  }
  return found;
}

}  // namespace

Tensor call_unrecorded(const DifferentiableFunction& f, Args xs) {
  const NoGrad guard;
  return f(xs);
}

Tensors engine_gradients(const DifferentiableFunction& f, Args xs, const Tensor& v) {
  const GradMode recording(true);
  Tensors leaves;
  for (const Tensor& x : xs) leaves.push_back(x.detach().requires_grad_());
  const Tensor y = f(leaves);
  if (y.requires_grad()) return grad(y, leaves, {.grad_output = v, .allow_unused = true});
  for (Tensor& x : leaves) x = zeros(x.shape(), float64);  // f does not depend on its inputs
  return leaves;
}

std::vector<Tracked> tracked_values(const Tensor& y) {
  if (y.dtype() == tracked64) return y.to_vector<Tracked>();
  const Values values = y.to_vector<double>();  // y does not depend on tracked inputs
  return {values.begin(), values.end()};
}

Values flatten(Args tensors) {
  Values flat;
  for (const Tensor& x : tensors)
    for (const double e : x.to_vector<double>()) flat.push_back(e);
  return flat;
}

Tensors to_tensors(const Tensors& inputs, const Values& x) {
  return flatten(inputs) == x ? inputs : split(inputs, x);
}

CheckedFunction checked_function(const DifferentiableFunction& f, Args args, bool use_dual) {
  const Tensors inputs(args.begin(), args.end());
  CheckedFunction c;
  for (const Tensor& x : inputs) c.inputs.push_back(x.shape());
  c.outputs = {call_unrecorded(f, inputs).shape()};
  c.x = flatten(inputs);
  c.forward = [=](const Values& x) {
    return call_unrecorded(f, to_tensors(inputs, x)).to_vector<double>();
  };
  c.backward = [=, output = c.outputs[0]](const Values& x, const Values& v) {
    return flatten(engine_gradients(f, to_tensors(inputs, x), from_data(v, output)));
  };
  if (use_dual)
    c.exact = [=](const Values& x, const Values& tangent) {
      return derivative_by_dual(f, inputs, x, tangent);
    };
  return c;
}

}  // namespace heed::autograd
