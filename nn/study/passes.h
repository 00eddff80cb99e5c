// What studies share when they run a model: values recorded in every layer, copies of a sequence in
// one batch, each with another change.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// Logits [B, T, classes], and the values at some sites of the blocks.
struct RecordedPass {
  Tensor logits;
  std::vector<std::vector<Tensor>> at;  ///< by site, in the order asked for, then by layer
};
/// Runs the model on inputs [B, T]. Sites are those of a block: "attn.hook_z".
RecordedPass recorded_pass(const Transformer& model, const Tensor& inputs,
                           const std::vector<std::string_view>& sites);

/// Copies run at a time: memory is that of a batch, however many there are.
inline constexpr std::int64_t kCopies = 32;

/// Sequence b of n copies of a batch of B is its sequence b % B; inputs and targets alone.
Batch copies_of(const Batch& batch, std::int64_t n);

/// ShapeError, which begins with `who`, unless the batch is one sequence [1, T].
void check_one_sequence(std::string_view who, const Batch& batch);

/// The elements, whatever the dtype.
std::vector<double> doubles(const Tensor& x);

}  // namespace heed::nn
