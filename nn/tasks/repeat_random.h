// Repeated random tokens: the standard test of induction heads in a model of text (Olsson et al.
// 2022, "In-context learning and induction heads"). A token can be predicted only from its earlier
// copy, so head scores are not confounded by the statistics of the text.
#pragma once

#include <cstdint>
#include <string>

#include "nn/tasks/task.h"

namespace heed::nn {

/// Sequences of random tokens that repeat.
struct RepeatedTokens {
  std::int64_t tokens = 0;  ///< R, number of random tokens
  std::int64_t copies = 4;  ///< C, number of times that they occur

  /// Returns the default for a context: 4 copies of min(25, (context - 1) / 4) tokens.
  static RepeatedTokens for_context(std::int64_t context);
  /// Parses "RxC", such as "25x4". Throws ValueError for any other text, for R below 2, for C below
  /// 2, and for sequences longer than the context of the task. The error text begins with `what`.
  static RepeatedTokens parse(const std::string& what, const std::string& text,
                              const TaskInfo& info);
  /// Returns a description: "25 random tokens, 4 times".
  std::string text() const;
};

/// Returns whether a model of the task predicts each token of a sequence from the tokens before it.
/// Only such a model can repeat random tokens.
bool predicts_its_inputs(const Task& task);
/// Draws sequences: BOS if the task has one, then R tokens, uniform in [0, classes) without BOS and
/// the stop token, C times. Returns them [count, T]. All next tokens are targets. The accuracy
/// counts those in the second and later copies.
Batch repeated_random(const TaskInfo& info, const RepeatedTokens& sizes, std::int64_t count,
                      Generator& g);

}  // namespace heed::nn
