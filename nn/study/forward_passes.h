// Helpers for studies that run a model: a forward pass that records values in every layer, and
// copies of a sequence in one batch, so that one pass measures many interventions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// The logits of a forward pass, and the values that it recorded.
struct RecordedForward {
  Tensor logits;                        ///< [B, T, classes]
  std::vector<std::vector<Tensor>> at;  ///< values by site, in the order requested, then by layer
};
/// Runs the model on inputs [B, T] and records these sites of every block, such as "attn.hook_z".
RecordedForward record_forward(const Transformer& model, const Tensor& inputs,
                               const std::vector<std::string_view>& sites);

/// Largest number of copies of a sequence in one batch. It bounds the memory of a study.
inline constexpr std::int64_t kMaxCopies = 32;

/// Returns n copies of a batch of B sequences, one after the other: sequence i of the result is
/// sequence i % B. The result has inputs and targets only.
Batch repeat_batch(const Batch& batch, std::int64_t n);

/// Throws ShapeError, which begins with `caller`, unless the batch is one sequence [1, T].
void check_one_sequence(std::string_view caller, const Batch& batch);

/// Returns the elements of a tensor of any dtype, as double.
std::vector<double> to_doubles(const Tensor& x);

}  // namespace heed::nn
