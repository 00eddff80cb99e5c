// Mutations: ways to make a right gradient wrong. A check that accepts such a gradient proves
// nothing.
#pragma once

#include <span>
#include <string_view>

#include "autograd/check/layouts.h"

namespace heed::autograd {

/// The values that a mutation changes. Both oracles of gradcheck can detect all of these changes
/// except kFloat32Gradients, which only check_float32() can detect.
enum class Spoils {
  kGradients,         ///< the gradients that a vjp returns
  kFloat32Gradients,  ///< the gradients that a vjp returns in float32; those in float64 stay right
  kSavedInputs,       ///< the input values that the op saved for its backward pass
};

/// One way to make a gradient wrong.
struct Mutation {
  std::string_view name;  ///< for reports, such as "doubled"
  /// Returns the wrong gradient for the right gradient g. `input` is the shape of the op's input.
  /// The pointer is null for kSavedInputs.
  Tensor (*apply)(const Tensor& g, const Shape& input);
  /// If true, the mutation needs no op, so check_vjp can apply it to the gradients that it
  /// receives.
  bool of_values = false;
  /// Order of the wrong gradient. If it is 2, the gradient is right, but the gradient of the
  /// gradient is wrong.
  int order = 1;
  CheckLayout layout = CheckLayout::kContiguous;  ///< memory layout in which it is checked
  Spoils spoils = Spoils::kGradients;             ///< the values that it changes
};
/// Returns all mutations.
std::span<const Mutation> mutations();

/// Returns g, the gradient of an output to which `input` was broadcast, with 0 for all but one
/// element along each broadcast axis: the last element if `last` is true, otherwise the first. A
/// right gradient would be the sum of all elements.
Tensor unsummed(const Tensor& g, const Shape& input, bool last);

}  // namespace heed::autograd
