// Gradient checks of a whole model: its loss as a function of its parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/check/float32.h"
#include "autograd/check/gradcheck.h"
#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// The mean loss on a batch as a function of the model's parameters, in their order and without
/// dropout. It computes in the dtype of its arguments, float32 or float64.
autograd::DifferentiableFunction loss_of_parameters(const Transformer& model, const Batch& batch);

/// One parameter tensor and what its checks found.
struct CheckedParameter {
  std::string name;
  std::int64_t size = 0;     ///< numbers in the tensor
  std::int64_t entries = 0;  ///< compared one by one
  /// By autograd::Oracle: the fewest digits that agree, at any order; NaN is fewest. None if the
  /// oracle was not used.
  std::optional<double> digits[2] = {};
  std::string failure = {};  ///< message of the first check that failed; empty: none
};

/// Checks that loss in each parameter tensor by itself, in float64: one entry by each oracle and a
/// random direction through all entries, again and again with other seeds until `seconds` have
/// passed, one round of all tensors at least. Of `how`, the numbers of entries are not used.
/// `progress` receives the number of checks done and the number of tensors, before each check.
std::vector<CheckedParameter> check_parameters(const Transformer& model, const Batch& batch,
                                               autograd::GradcheckOptions how, double seconds,
                                               const ProgressCallback& progress = {});

/// Compares that loss and its gradients in float32, on this machine's kernels, with float64.
autograd::Float32Report check_float32(const Transformer& model, const Batch& batch);
/// An estimate of the seconds that check_float32() takes: its passes run the references.
std::int64_t float32_check_seconds(const Transformer& model, const Batch& batch);

}  // namespace heed::nn
