// Explains why a tensor gets no gradient.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// While it lives, follows what the ops of this thread read, and keeps all of it alive:
///
///   GradientTrace trace;
///   const Tensor loss = model(x);
///   backward(loss);
///   if (!w.grad().defined()) std::cerr << trace.why_none(w) << "\n";
class GradientTrace final : public OpObserver {
 public:
  /// Returns where the path from x to a loss ends: "blocks.1.attn: the gradient ends at matmul,
  /// whose input 1 [8, 8] is detached", or that recording was off, or that nothing reads x, or the
  /// last op that does.
  std::string why_none(const Tensor& x) const;

  void saw(const Op& op, const Inputs& inputs, const Tensor& output) override;

 private:
  struct Read {
    Tensor value;  // without history
    bool tracked;
  };
  struct Call {
    std::string place;  // "blocks.1.attn: "
    std::string_view op;
    std::vector<Read> inputs;
    Read output;
  };
  std::vector<Call> calls_;
};

}  // namespace heed::autograd
