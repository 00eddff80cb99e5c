// Functions of tensors as the checker sees them: values, gradients by the engine, and derivatives
// by dual numbers, with the size of their terms.
#pragma once

#include <vector>

#include "autograd/base/tracked.h"
#include "autograd/check/checker.h"
#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// f(xs), unrecorded.
Tensor call_unrecorded(const DifferentiableFunction& f, Args xs);
/// J^T v by the engine, for every input.
std::vector<Tensor> engine_gradients(const DifferentiableFunction& f, Args xs, const Tensor& v);
/// The elements of a tracked64 or float64 tensor.
std::vector<Tracked> tracked_values(const Tensor& y);

/// The tensors' elements, one tensor after the other; of float64.
Values flatten(Args tensors);
/// Tensors of these elements: the inputs themselves, in their own memory layout, if none differs.
std::vector<Tensor> to_tensors(const std::vector<Tensor>& inputs, const Values& x);

/// f at float64 inputs, with dual numbers as its exact oracle if `use_dual`.
CheckedFunction checked_function(const DifferentiableFunction& f, Args inputs, bool use_dual);

}  // namespace heed::autograd
