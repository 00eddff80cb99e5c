// Ways to make a right gradient wrong. A check that lets one of them pass proves nothing.
#pragma once

#include <span>
#include <string_view>

#include "autograd/check/layouts.h"

namespace heed::autograd {

/// What a mutation makes wrong. Both oracles of gradcheck can see it, but for float32.
enum class Spoils { kGradients, kFloat32Gradients, kSavedInputs };

struct Mutation {
  std::string_view name;
  /// The wrong gradient; null for kSavedInputs. `input`: the shape of what g is the gradient of.
  Tensor (*apply)(const Tensor& g, const Shape& input);
  bool of_values = false;  ///< it needs no op: check_vjp applies it to gradients that are given
  int order = 1;           ///< 2: the gradient's value is right, its own gradient is not
  CheckLayout layout = CheckLayout::kContiguous;  ///< in which it shows
  Spoils spoils = Spoils::kGradients;
};
std::span<const Mutation> mutations();

}  // namespace heed::autograd
