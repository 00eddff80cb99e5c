// Finds the op that a NaN or an infinity comes from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Finds, while it lives, the op of this thread that turned finite numbers into others, forward or
/// backward:
///
///   FirstNonFinite finder;
///   const Tensor loss = sum(log(x) * w);
///   backward(loss);
///   if (finder.found()) std::cerr << finder.text() << "\n";
///
/// An op is at fault whose result has a NaN while no input has one, or an infinity while all inputs
/// are finite; not so one that was given the value it fills in (masked_fill's -inf, which softmax
/// turns into 0). Of several the first NaN counts, and with it the first infinity if a NaN came
/// from one; without any NaN the first infinity. Costs a pass over every operand.
class FirstNonFinite final : public OpObserver {
 public:
  /// `names`: of tensors, for the text: {"up.weight", up.weight}.
  explicit FirstNonFinite(std::vector<std::pair<std::string, Tensor>> names = {});

  bool found() const { return !nan_.empty() || !infinity_.empty(); }
  /// Module (NameScope), op, index, value, and each operand with its shape and its value there or
  /// its range: "blocks.0.mlp: log [3] float64 is nan at [1]: input 0 [3] float64 is -2 there".
  /// If no op is at fault, the first whose result is not finite, as its inputs were; "" if none.
  std::string text() const;

  void saw(const Op& op, const Inputs& inputs, const Tensor& output) override;
  void before_vjp(Node& node, const Tensor& g) override;
  void saw_gradients(Node& node, const Vjp& v, Grads& grads) override;
  void after_vjp() override;

 private:
  struct Operand {
    std::string name;
    const Tensor* value;
  };
  void judge(const std::string& what, const Tensor& result, const std::vector<Operand>& operands);
  std::string described(const Operand& operand, const Dims& at, const Shape& result) const;
  std::string place() const;

  std::vector<std::pair<std::string, Tensor>> names_;
  std::vector<std::pair<std::uint64_t, std::string>> paths_;  // of nodes, by rising sequence
  std::vector<std::string> vjps_;                             // those that run, outermost first
  std::string nan_, infinity_, passed_on_;
  bool nan_from_infinity_ = false;
};

}  // namespace heed::autograd
