// Continuations of a prompt while a model trains (`heed train --sample-every`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/run/step_log.h"
#include "nn/train/trainer.h"

namespace heed {

/// Writes a continuation to samples.txt of the run after every config.sample_every steps, step 0
/// included. A line is "STEP: TEXT", with escapes such as \n. The random numbers depend only on
/// seed and step, and no other random number of the run changes.
class TrainingSamples {
 public:
  /// Opens samples.txt, or does nothing if config.sample_every is 0. `trainer` must outlive the
  /// object. Throws IoError.
  TrainingSamples(const nn::RunFolder& folder, nn::Trainer& trainer);
  /// Returns the tokens that are continued: those of config.sample_prompt. If it is empty, these
  /// are a newline for texts and lines (token 0 if a text has no newline), and the first half of
  /// the task's example for other tasks. Throws the errors of Task::prompt().
  static std::vector<std::int64_t> prompt_of(const nn::Trainer& trainer);
  /// Writes a continuation and returns prompt and continuation as one line, if the current step is
  /// due and not in the file. Texts continue for 100 tokens, sequences of tasks to their end.
  std::optional<std::string> after_step();

 private:
  const nn::Trainer& trainer_;
  std::optional<nn::StepLog> file_;
  std::vector<std::int64_t> prompt_;
};

}  // namespace heed
