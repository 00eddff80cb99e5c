// The result of a finished run: its loss on the whole evaluation set.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nn/lab/names.h"

namespace heed::lab {

/// The result in RunFolder::kState. Losses are means in nats per target. The final evaluation uses
/// final_evaluation_size() sequences.
struct RunResult {
  Index steps = 0;                            ///< step of the weights
  double loss = 0;                            ///< Evaluation::loss of the final evaluation; finite
  std::optional<double> optimal = {};         ///< Evaluation::optimal
  std::optional<double> accuracy = {};        ///< Evaluation::accuracy
  std::optional<double> standard_error = {};  ///< Evaluation::standard_error
  Index sequences = 0;                        ///< Evaluation::sequences
  Index targets = 0;                          ///< Evaluation::tokens
  Index evaluation_set = 0;                   ///< number of sequences of the evaluation set
  /// Time from the start of training to the end of the final evaluation in seconds. None if the run
  /// was resumed.
  std::optional<double> seconds = {};
};

/// Returns the result as one line of JSON. Doubles are read back with the same bits.
std::string to_json(const RunResult& result);
/// Parses the text of to_json(). Throws JsonError if a value is missing, has another type or is out
/// of range: every number is finite and at least 0, and the accuracy at most 1.
RunResult parse_run_result(std::string_view text);

}  // namespace heed::lab
