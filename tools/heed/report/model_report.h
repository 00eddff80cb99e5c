// Reports the parameters, memory and work of a model, for `heed info`.
#pragma once

#include "nn/layers/transformer.h"
#include "tools/heed/report/report.h"

namespace heed {

/// Columns of the table of parameters.
inline constexpr Column kParameterColumns[] = {{"name", "parameter"},
                                               {"shape", "shape"},
                                               {"", "numbers", "", "commas"},
                                               {"std", "std", "", "{:.4g}"}};
/// Keys that add_model() sets.
inline constexpr Column kModelKeys[] = {
    {"parameters", "parameters", "", "commas"},
    {"attention", "attention"},
    {"flops_per_token", "work", "FLOP per token, forward and backward", "si"},
    {"parameter_bytes", "memory", "of weights", "bytes"},
    {"training_bytes", "training", "of weights, gradients and moments", "bytes"},
    rows("tensors", kParameterColumns)};

/// Returns the sizes of a shape as a list.
Value sizes_of(const autograd::Shape& shape);
/// Sets kModelKeys. In text, the table of parameters is the first item.
void add_model(Report& report, const nn::Transformer& model);

}  // namespace heed
