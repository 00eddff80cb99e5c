// GradientTrace explains why a tensor gets no gradient.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Records the inputs and the output of every op on this thread, as long as the GradientTrace
/// exists, and keeps these tensors alive:
///
///   GradientTrace trace;
///   const Tensor loss = model(x);
///   backward(loss);
///   if (!w.grad().defined()) std::cerr << trace.why_none(w) << "\n";
class GradientTrace final : public OpObserver {
 public:
  /// Returns a text that names the place where the path from x to the loss ends. The text gives one
  /// of these causes: an input of an op is detached ("blocks.1.attn: the gradient ends at matmul,
  /// whose input 1 [8, 8] is detached"), an op ran under NoGrad, no op reads x, or no
  /// differentiable op reads the result of the last op that depends on x.
  std::string why_none(const Tensor& x) const;

  void saw(const Op& op, const Inputs& inputs, const Tensor& output) override;

 private:
  struct Read {
    Tensor value;  // detached
    bool tracked;
  };
  struct Call {
    std::string place;  // module, such as "blocks.1.attn: "
    std::string_view op;
    std::vector<Read> inputs;
    Read output;
  };
  std::vector<Call> calls_;
};

}  // namespace heed::autograd
