#include "nn/train/checks/audit.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the Euclidean norm |x - y|, or |x| if y is undefined. The sum is in float64, but no
// float64 copies are made, because a copy of a large weight could be most of a run's memory.
double norm_of(const Tensor& x, const Tensor& y = {}) {
  double squares = 0;
  dispatch_parameter(x, [&]<class T> {
    const Tensor a = contiguous(x.detach()), b = y.defined() ? contiguous(y.detach()) : Tensor();
    const T *left = a.data<T>(), *right = b.defined() ? b.data<T>() : nullptr;
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      const double e = double(left[i]) - (right ? double(right[i]) : 0);
      squares += e * e;
    }
  });
  return std::sqrt(squares);
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
    audit.push_back({p.name, p.tensor.shape(),
                     g.defined() ? std::optional(norm_of(g)) : std::nullopt, norm_of(before),
                     norm_of(p.tensor, before)});
  }
  return audit;
}

FirstNonFinite watch_for_non_finite(const Transformer& model) {
  std::vector<std::pair<std::string, Tensor>> names;
  for (const NamedTensor& p : parameters(model)) names.emplace_back(p.name, p.tensor);
  return FirstNonFinite(std::move(names));
}

}  // namespace heed::nn
