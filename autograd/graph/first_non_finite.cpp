#include "autograd/graph/first_non_finite.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

// Returns the elements in row-major order, or an empty vector if x is neither float32 nor float64.
std::vector<double> numbers(const Tensor& x) {
  if (x.dtype() == float64) return x.to_vector<double>();
  if (x.dtype() != float32) return {};
  const std::vector<float> values = x.to_vector<float>();
  return {values.begin(), values.end()};
}

bool is_nan(double x) { return std::isnan(x); }
bool is_not_finite(double x) { return !std::isfinite(x); }

bool any_has(const std::vector<Tensor>& tensors, bool (*is)(double)) {
  return std::ranges::any_of(tensors,
                             [is](const Tensor& x) { return std::ranges::any_of(numbers(x), is); });
}

}  // namespace

void FirstNonFinite::check_result(const std::string& what, const Tensor& result,
                                  const std::vector<Tensor>& operands) {
  if (at_fault_) return;
  const std::vector<double> values = numbers(result);
  auto bad = std::ranges::find_if(values, is_nan);
  at_fault_ = bad != values.end() && !any_has(operands, is_nan);
  if (!at_fault_) {
    bad = std::ranges::find_if(values, is_not_finite);
    if (bad == values.end()) return;
    at_fault_ = !any_has(operands, is_not_finite);
  }
  if (!at_fault_ && !text_.empty()) return;
  std::string path = NameScope::path();
  const Node* vjp = VjpScope::current();
  if (vjp) path = paths_.contains(vjp->sequence()) ? paths_.at(vjp->sequence()) : "";
  TextStream text;
  text << path << (path.empty() ? "" : ": ");
  if (vjp) text << "backward of " << vjp->op()->name() << ": ";
  text << what << " " << result.shape() << " " << result.dtype() << " is "
       << (std::isnan(*bad) ? std::nan("") : *bad)  // without the sign of a NaN
       << " at " << unravel(bad - values.begin(), result.shape());
  text_ = text.str();
}

void FirstNonFinite::saw(const Op& op, const Inputs& inputs, const Tensor& output) {
  if (const Ref<Node>& node = detail::TensorAccess::node(output); node && node->op() == &op)
    if (std::string path = NameScope::path(); !path.empty())
      paths_.emplace(node->sequence(), std::move(path));
  if (op.spec.fills) return;
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    if (output.shares_storage(inputs[i]))
      return;  // the output is a view; its memory may still be uninitialized
    operands.push_back(inputs[i]);
  }
  check_result(std::string(op.name()), output, operands);
}

// Checks the gradients that the vjp returned. A backward kernel computes them without an op, so
// saw() does not receive them.
void FirstNonFinite::saw_gradients(Node& node, const Vjp& v, Grads& grads) {
  std::vector<Tensor> operands{v.grad};
  for (const Node::Input& input : node.inputs())
    if (input.value.defined()) operands.push_back(input.value);
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined())
      check_result("gradient of input " + std::to_string(i), grads[i], operands);
}

}  // namespace heed::autograd
