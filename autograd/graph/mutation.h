// Testing the checker: gradients made wrong on purpose. A checker that passes one of them proves
// nothing when it passes the right ones.
#pragma once

#include <functional>

#include "autograd/graph/graph.h"

namespace heed::autograd {

/// While it lives, what ops' vjps return on this thread goes through f(op, input, gradient, shape
/// of the input), before it is summed over broadcast axes. Inside another one it takes that one's
/// place until its own end.
class MutateGradients {
 public:
  using Mutation = std::function<Tensor(const Op&, std::size_t, const Tensor&, const Shape&)>;
  explicit MutateGradients(Mutation f);
  ~MutateGradients();
  MutateGradients(const MutateGradients&) = delete;
  /// The gradient as the engine is to use it.
  static Tensor apply(const Op& op, std::size_t input, Tensor g, const Shape& shape);

 private:
  Mutation f_;
  MutateGradients* outer_;
};

}  // namespace heed::autograd
