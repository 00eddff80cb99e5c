// Repeated random tokens: the standard test of induction heads in a model of text (Olsson et al.
// 2022, "In-context learning and induction heads"). A token can be predicted only from its earlier
// copy, so head scores are not confounded by the statistics of the text.
#pragma once

#include <cstdint>

#include "nn/lab/tasks/task.h"

namespace heed::lab {

inline constexpr std::int64_t kCopies = 4;  ///< number of times that the random tokens occur
/// Returns how many random tokens are repeated in a context: min(25, (context - 1) / 4).
std::int64_t repeated_tokens(std::int64_t context);
/// Returns whether a model of the task predicts each token of a sequence from the tokens before it.
/// Only such a model can repeat random tokens.
bool predicts_its_inputs(const Task& task);
/// Draws sequences: BOS if the task has one, then kCopies copies of `tokens` tokens, uniform in
/// [0, classes) without BOS and the stop token. Returns them [count, T]. All next tokens are
/// targets. The accuracy counts those in the second and later copies.
Batch repeated_random(const TaskInfo& info, std::int64_t tokens, std::int64_t count, Generator& g);

}  // namespace heed::lab
