// The pictures of a run folder.
#pragma once

#include <filesystem>

#include "nn/train.h"

namespace heed {

/// loss.png: the loss of each step and evaluation, beside the optimum and other reference losses of
/// the sequences that were evaluated.
void draw_loss(const std::filesystem::path& file, const nn::Trainer& trainer,
               const nn::Evaluation& last);

/// attention.png: the weights of every layer and head on the task's example sequence.
void draw_attention(const std::filesystem::path& file, const nn::Transformer& model,
                    const nn::Task& task, std::int64_t steps);

}  // namespace heed
