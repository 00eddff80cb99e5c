// A ledger of one step: gradient, weight and update of each parameter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/graph/first_non_finite.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// One parameter in one optimizer step. Norms are Euclidean, of all its elements.
struct ParameterAudit {
  std::string name;
  autograd::Shape shape;
  std::optional<double> gradient;  ///< norm before clipping; none: no gradient reached it
  double weight = 0;               ///< norm before the step
  double update = 0;               ///< norm of what the step added
  /// update / weight, not finite for a weight of 0; about 1e-3 where learning goes well (Karpathy,
  /// A Recipe for Training Neural Networks).
  double ratio() const { return update / weight; }
  /// Returns whether the gradient is missing, zero everywhere, or not finite.
  bool in_trouble() const;
};

/// Compares the weights before a step, at construction, with those after it.
class StepAudit {
 public:
  /// Copies the weights.
  explicit StepAudit(const Transformer& model);
  std::vector<ParameterAudit> after(const Transformer& model) const;

 private:
  std::vector<Tensor> weights_;
};

/// Returns an observer that finds the first op that makes a NaN or an infinity, and names the
/// model's parameters.
autograd::FirstNonFinite watch_for_non_finite(const Transformer& model);

}  // namespace heed::nn
