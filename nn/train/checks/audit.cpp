#include "nn/train/checks/audit.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"

namespace heed::nn {

using namespace autograd;

namespace {

double norm(const Tensor& x) {
  const Tensor exact = to(x, float64);
  return std::sqrt(sum(exact * exact).item());
}

}  // namespace

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
    audit.push_back({p.name, p.tensor.shape(), g.defined() ? std::optional(norm(g)) : std::nullopt,
                     norm(before), norm(p.tensor.detach() - before)});
  }
  return audit;
}

}  // namespace heed::nn
