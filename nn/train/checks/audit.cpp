#include "nn/train/checks/audit.h"

#include <algorithm>
#include <cmath>

#include "autograd/tensor/copy.h"
#include "nn/io/tensor_difference.h"

namespace heed::nn {

using namespace autograd;

bool ParameterAudit::in_trouble() const {
  return !gradient || *gradient == 0 || !std::isfinite(*gradient);
}

StepAudit::StepAudit(const Transformer& model, std::vector<std::string> frozen)
    : frozen_(std::move(frozen)) {
  const NoGrad guard;
  for (const NamedTensor& p : parameters(model)) weights_.push_back(detached_copy(p.tensor));
}

std::vector<ParameterAudit> StepAudit::after(const Transformer& model) const {
  std::vector<ParameterAudit> audit;
  std::size_t index = 0;
  for (const NamedTensor& p : parameters(model)) {
    const Tensor& before = weights_[index++];
    if (std::ranges::count(frozen_, p.name) > 0) continue;
    const Tensor g = p.tensor.is_leaf() && p.tensor.requires_grad() ? p.tensor.grad() : Tensor();
    const TensorDifference step = compare_tensors(before, p.tensor);
    audit.push_back({p.name, p.tensor.shape(),
                     g.defined() ? std::optional(compare_tensors(g, g).norm_a) : std::nullopt,
                     step.norm_a, step.norm_difference});
  }
  return audit;
}

}  // namespace heed::nn
