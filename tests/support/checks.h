// The gradient checks that the library registers, and options of gradcheck().
#pragma once

#include <vector>

#include "autograd/check/gradcheck.h"

namespace heed::autograd {

/// Returns all registered checks, except those whose names begin with "test.", which
/// only tests of the gradient checker register.
inline std::vector<const Check*> library_checks() {
  std::vector<const Check*> list = registered_checks();
  std::erase_if(list, [](const Check* check) { return check->name().starts_with("test."); });
  return list;
}

/// Returns the options of a check by one oracle.
inline GradcheckOptions only_by(Oracle oracle, int order = 1) {
  GradcheckOptions how{.order = order};
  (oracle == Oracle::kDual ? how.difference_entries : how.dual_entries) = 0;
  return how;
}

/// Returns the number of elements of all inputs.
inline Index input_elements(const Sample& s) {
  Index n = 0;
  for (const Tensor& x : s.inputs) n += x.numel();
  return n;
}

}  // namespace heed::autograd
