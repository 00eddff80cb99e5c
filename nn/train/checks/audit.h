// Audit of one optimizer step: norms of gradient, weight and update of each parameter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// Norms of one parameter in one optimizer step. All are Euclidean norms over all elements.
struct ParameterAudit {
  std::string name;                ///< name in parameters()
  autograd::Shape shape;           ///< shape of the parameter
  std::optional<double> gradient;  ///< norm before clipping; no value without a gradient
  double weight = 0;               ///< norm of the parameter before the step
  double update = 0;               ///< norm of the change of the parameter in the step
  /// Returns update / weight. The result is not finite if `weight` is 0. About 1e-3 is typical of
  /// training that works (Karpathy, A Recipe for Training Neural Networks).
  double ratio() const { return update / weight; }
  /// Returns whether the gradient is missing, zero everywhere, or not finite.
  bool in_trouble() const;
};

/// Compares the weights before and after a step. Construct it before the step.
class StepAudit {
 public:
  /// Copies the weights of the model. The parameters `frozen` are left out of the audit.
  explicit StepAudit(const Transformer& model, std::vector<std::string> frozen = {});
  /// Returns the audit of each parameter. Call it after the step, while .grad still contains the
  /// gradients of the step.
  std::vector<ParameterAudit> after(const Transformer& model) const;

 private:
  std::vector<std::string> frozen_;
  std::vector<Tensor> weights_;
};

}  // namespace heed::nn
