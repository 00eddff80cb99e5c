// Gradient checks of a whole model, whose loss is a function of its parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/check/float32.h"
#include "autograd/check/gradcheck.h"
#include "nn/lab/tasks/task.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Returns the mean loss on a batch as a function of the model's parameters, in the order of
/// parameters(). The function uses no dropout, and computes in the dtype of its arguments, float32
/// or float64.
autograd::DifferentiableFunction loss_of_parameters(const Transformer& model, const Batch& batch);

/// Result of the checks of one parameter tensor.
struct CheckedParameter {
  std::string name;   ///< name in parameters()
  Index size = 0;     ///< elements of the tensor
  Index entries = 0;  ///< elements whose derivative was compared
  /// Smallest number of decimal digits to which gradient and oracle agree, over all orders of
  /// derivatives. The index is an autograd::Oracle. None if the oracle was not used.
  std::optional<double> digits[2] = {};
  std::string failure = {};  ///< message of the first check that failed; empty if none failed
};

/// Checks the gradient of loss_of_parameters() with respect to each parameter tensor separately, in
/// float64. With each oracle, a check compares the derivative with respect to one element and the
/// derivative along a random direction through all elements. The checks are repeated with other
/// seeds until `seconds` have passed; each tensor is checked at least once. An oracle is not used
/// if its number of entries in `how` is 0. Before each check, `progress` receives the number of
/// checks done and the number of parameter tensors.
std::vector<CheckedParameter> check_parameters(const Transformer& model, const Batch& batch,
                                               autograd::GradcheckOptions how, double seconds,
                                               const ProgressCallback& progress = {});

/// Compares the loss and its gradients in float32, computed by this machine's SIMD kernels, with
/// those in float64.
autograd::Float32Report check_float32(const Transformer& model, const Batch& batch);
/// Returns an estimate of the seconds that check_float32() takes. Most of its time is spent in the
/// slow reference kernels.
std::int64_t float32_check_seconds(const Transformer& model, const Batch& batch);

}  // namespace heed::lab
