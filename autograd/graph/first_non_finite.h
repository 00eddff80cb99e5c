// FirstNonFinite finds the op that a NaN or an infinity comes from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Finds the first op on this thread, forward or backward, that turns finite numbers into NaN or
/// infinity. It observes ops from its construction to its destruction:
///
///   FirstNonFinite finder;
///   const Tensor loss = sum(log(x) * w);
///   backward(loss);
///   if (!finder.text().empty()) std::cerr << finder.text() << "\n";
///
/// An op is at fault if its result has a NaN although no input has one, or an infinity although all
/// inputs are finite. An op that writes a value it was given (OpSpec::fills, as in masked_fill with
/// -inf) is never at fault. As long as all numbers are finite, the cost is one pass over every
/// result and gradient.
class FirstNonFinite final : public OpObserver {
 public:
  /// Returns a text with the module (NameScope), the op, its result and the index of the first NaN
  /// or infinity: "blocks.0.mlp: log [3] float64 is nan at [1]". If no op is at fault, the text
  /// describes the first op that both received and returned a NaN or an infinity. If there is no
  /// such op, the text is empty.
  const std::string& text() const { return text_; }

  void saw(const Op& op, const Inputs& inputs, const Tensor& output) override;
  void saw_gradients(Node& node, const Vjp& v, Grads& grads) override;

 private:
  void check_result(const std::string& what, const Tensor& result,
                    const std::vector<Tensor>& operands);

  std::map<std::uint64_t, std::string> paths_;  // module of a node, by Node::sequence()
  std::string text_;
  bool at_fault_ = false;  // true: the op of text_ is at fault
};

}  // namespace heed::autograd
