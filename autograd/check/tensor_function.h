// Adapts a function of tensors to the checker. The engine computes its gradients, and dual numbers
// compute its exact derivatives and their terms.
#pragma once

#include <vector>

#include "autograd/base/tracked.h"
#include "autograd/check/point.h"
#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// Returns f(xs) without recording a graph.
Tensor call_unrecorded(const DifferentiableFunction& f, Args xs);
/// Returns the gradient J^T v for every input, computed by the engine. J is the Jacobian of f. If f
/// does not depend on an input, the gradient of this input is zeros.
std::vector<Tensor> engine_gradients(const DifferentiableFunction& f, Args xs, const Tensor& v);
/// Returns the elements of a tracked64 or float64 tensor in row-major order.
std::vector<Tracked> tracked_values(const Tensor& y);

/// Returns the elements of all tensors (float64), concatenated.
Values flatten(Args tensors);
/// Returns tensors with the elements x and the shapes of `inputs`. If x equals the elements of
/// `inputs`, returns `inputs` themselves, with their memory layout.
std::vector<Tensor> to_tensors(const std::vector<Tensor>& inputs, const Values& x);

/// Adapts f at float64 inputs to the checker. If `use_dual` is true, dual numbers are the exact
/// oracle; otherwise the exact oracle is not used.
CheckedFunction checked_function(const DifferentiableFunction& f, Args inputs, bool use_dual);

}  // namespace heed::autograd
