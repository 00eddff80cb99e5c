// The result of a finished run: its loss on the whole evaluation set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "nn/train/evaluate.h"

namespace heed::nn {

/// Contents of RunFolder::kResult. Losses are means in nats per target.
struct RunResult {
  std::int64_t steps = 0;                     ///< number of steps of the run
  double loss = 0;                            ///< loss of the last weights; finite
  std::optional<double> optimal = {};         ///< see Evaluation::optimal
  std::optional<double> accuracy = {};        ///< see Evaluation::accuracy
  std::optional<double> standard_error = {};  ///< see Evaluation::standard_error
  std::int64_t sequences = 0;                 ///< number of sequences that were evaluated
  std::int64_t targets = 0;                   ///< number of targets that were evaluated
  /// Number of sequences of the evaluation set; 0 if `heed sweep` of an earlier version wrote this.
  std::int64_t evaluation_set = 0;
  /// Training time in seconds; none if the run was resumed.
  std::optional<double> seconds = {};
  /// hash_of_tensors() of the evaluated weights; "" if `heed sweep` of an earlier version wrote
  /// this.
  std::string weights = {};
};

/// Returns the result of an evaluation of all sequences. `steps` is the step of the weights.
RunResult run_result(const Evaluation& all, const Task& task, std::int64_t steps);

/// Returns the result as one line of JSON. Doubles are read back with the same bits.
std::string to_json(const RunResult& result);
/// Parses the text of to_json(), or of a file that `heed sweep` of an earlier version wrote. Throws
/// JsonError if a value is missing or has another type.
RunResult parse_run_result(std::string_view text);

}  // namespace heed::nn
