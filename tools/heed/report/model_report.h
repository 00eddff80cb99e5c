// What a model is made of: parameters, work per token, memory. For heed info and --dry-run.
#pragma once

#include "nn/train/trainer.h"
#include "tools/heed/report/report.h"

namespace heed {

struct ModelReport {
  std::vector<nn::NamedTensor> parameters;
  std::int64_t count = 0;  ///< of numbers in all parameters
  /// Forward and backward of one token in a full context: 6 x parameters of matrix products + 6 x
  /// layers x context x heads x (d_head + d_value) (Chowdhery et al. 2022, appendix B; masked work
  /// counted).
  double flops_per_token = 0;
  std::string attention;        ///< "fused", or "composite because of ..."
  double parameter_bytes = 0;   ///< weights alone
  double training_bytes = 0;    ///< weights, gradients and AdamW's two moments
  double activation_bytes = 0;  ///< kept for backward, per sequence: measured in a forward pass
  /// Names and shapes [1, T, ...] of what flows through the model.
  std::vector<std::pair<std::string, autograd::Shape>> sites;
};

/// Runs one forward pass of a sequence as long as the context; what it holds matters to no figure.
ModelReport report_on(nn::Transformer& model);

inline constexpr Column kParameterColumns[] = {{"name", "parameter"},
                                               {"shape", "shape"},
                                               {"", "numbers", "", "commas"},
                                               {"std", "std", "", "{:.4g}"}};
/// What add_model() sets.
inline constexpr Column kModelKeys[] = {
    {"parameters", "parameters", "", "commas"},
    {"attention", "attention"},
    {"flops_per_token", "work", "FLOP per token, forward and backward", "si"},
    {"parameter_bytes", "memory", "of weights", "bytes"},
    {"training_bytes", "training", "of weights, gradients and moments", "bytes"},
    {"activation_bytes_per_sequence", "activations", "per sequence", "bytes"},
    rows("tensors", kParameterColumns)};

/// [2, 3] as a list.
Value sizes_of(const nn::Tensor& tensor);
/// Sets these keys. Text has the table of parameters first.
void add_model(Report& report, const ModelReport& model);

}  // namespace heed
