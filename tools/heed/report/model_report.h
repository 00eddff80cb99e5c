// What a model is made of, for heed info and heed train --dry-run.
#pragma once

#include "nn/layers/transformer.h"
#include "tools/heed/report/report.h"

namespace heed {

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
Value sizes_of(const autograd::Shape& shape);
/// Sets these keys; runs a forward pass. Text has the table of parameters first.
void add_model(Report& report, const nn::Transformer& model);

}  // namespace heed
