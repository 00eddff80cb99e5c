// MutateGradients makes gradients wrong, so that a test can require that a check finds them.
#pragma once

#include <functional>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Replaces gradients during the lifetime of the object, on the current thread. Each gradient that
/// the vjp of an op returns is replaced by f(op, index of the input, gradient, shape of the input)
/// before it is summed over broadcast axes.
class MutateGradients : public OpObserver {
 public:
  using Function = std::function<Tensor(const Op&, std::size_t, const Tensor&, const Shape&)>;
  explicit MutateGradients(Function f) : f_(std::move(f)) {}

 private:
  void saw_gradients(Node& node, const Vjp& v, Grads& grads) override {
    const auto inputs = node.inputs();
    for (std::size_t i = 0; i < std::min(grads.size(), inputs.size()); ++i)
      if (grads[i].defined() && v.needs(int(i)))
        grads[i] = f_(*node.op(), i, grads[i], inputs[i].node->shape());
  }
  Function f_;
};

}  // namespace heed::autograd
