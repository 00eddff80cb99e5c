// FirstNonFinite finds the op that a NaN or an infinity comes from.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Finds the first op on this thread, forward or backward, that turns finite numbers into NaN or
/// infinity. It observes ops from its construction to its destruction:
///
///   FirstNonFinite finder;
///   const Tensor loss = sum(log(x) * w);
///   backward(loss);
///   if (finder.found()) std::cerr << finder.text() << "\n";
///
/// An op is at fault if its result has a NaN although no input has one, or an infinity although all
/// inputs are finite. An op that writes a value it was given (OpSpec::fills, as in masked_fill with
/// -inf) is never at fault. The first NaN is reported. If an operand of its op has an infinity, the
/// first infinity is reported too. If there is no NaN, only the first infinity is reported. As long
/// as all numbers are finite, the cost is one pass over every result and gradient.
class FirstNonFinite final : public OpObserver {
 public:
  /// `names` has the names that text() uses for tensors, such as {"up.weight", up.weight}.
  explicit FirstNonFinite(std::vector<std::pair<std::string, Tensor>> names = {});

  /// Returns true if an op at fault was found.
  bool found() const { return !nan_.empty() || !infinity_.empty(); }
  /// Returns a text with the module (NameScope), the op, the index and the value, and for each
  /// operand its shape, its value at that index and its range: "blocks.0.mlp: log [3] float64 is
  /// nan at [1]: input 0 [3] float64 is -2 there, -2 to 3". If no op is at fault, the text
  /// describes the first op that both received and returned a NaN or an infinity. If there is no
  /// such op, the text is empty.
  std::string text() const;

  void saw(const Op& op, const Inputs& inputs, const Tensor& output) override;
  void saw_gradients(Node& node, const Vjp& v, Grads& grads) override;

 private:
  struct Operand {
    std::string name;
    const Tensor* value;
  };
  void check_result(const std::string& what, const Tensor& result,
                    const std::vector<Operand>& operands);
  std::string described(const Operand& operand, const Dims& at, const Shape& result) const;
  std::string place() const;

  std::vector<std::pair<std::string, Tensor>> names_;
  std::map<std::uint64_t, std::string> paths_;  // module of a node, by Node::sequence()
  std::string nan_, infinity_;                  // texts about the first NaN and the first infinity
  std::string passed_on_;  // text about the first op that only passes a NaN or inf on
  bool nan_from_infinity_ = false;
};

}  // namespace heed::autograd
