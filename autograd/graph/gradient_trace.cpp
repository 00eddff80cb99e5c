#include "autograd/graph/gradient_trace.h"

#include <sstream>
#include <unordered_set>

#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {

using detail::TensorAccess;

void GradientTrace::saw(const Op& op, const Inputs& inputs, const Tensor& output) {
  Call call{NameScope::path(), op.name(), {}, {output.detach(), output.requires_grad()}};
  if (!call.place.empty()) call.place += ": ";
  for (std::size_t i = 0; i < inputs.size(); ++i)
    call.inputs.push_back(inputs[i].defined() ? Read{inputs[i].detach(), inputs[i].requires_grad()}
                                              : Read{Tensor(), false});
  calls_.push_back(std::move(call));
}

std::string GradientTrace::why_none(const Tensor& x) const {
  // Storages of x, and of the tracked tensors that were computed from x by a call before `call`.
  std::unordered_set<const Storage*> reached{TensorAccess::storage(x).get()};
  std::string last;
  for (const Call& call : calls_) {
    bool through = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const auto& [value, tracked] = call.inputs[i];
      if (!value.defined() || !reached.contains(TensorAccess::storage(value).get())) continue;
      std::ostringstream cut;
      cut << call.place << "the gradient ends at " << call.op << ", whose input " << i << " "
          << value.shape();
      if (!tracked) return cut.str() + " is detached";
      if (!call.output.tracked) return cut.str() + " is read under NoGrad";
      through = true;
    }
    if (!through) continue;
    reached.insert(TensorAccess::storage(call.output.value).get());
    last = call.place + std::string(call.op);
  }
  if (last.empty()) return "no op reads it";
  return "the path ends at " + last + ": no differentiable op leads from its result to the loss";
}

}  // namespace heed::autograd
