// The folder that keeps a run: config.toml, model, best and state .safetensors, metrics.csv and
// .jsonl.
// Trainer::save() and Trainer::resume() are in the .cpp.
#pragma once

#include "nn/train/trainer.h"

namespace heed::nn {

/// What eval, generate and study open.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<Task> task;
  Transformer model;
  std::optional<std::int64_t> step;  ///< that made these weights, if the file says so
  std::string note;                  ///< what a user should know of the file, or ""
};
/// Whether a loaded task can make sequences. Prompts alone need no text file: its vocabulary is in
/// the weights' metadata.
enum class Use { kPrompts, kSequences };
/// Reads config.toml and `weights` of a run folder. IoError naming file and reason, also if the
/// text that kSequences needs is gone or changed.
LoadedRun load_run(const std::filesystem::path& folder, const std::string& weights, Use use);

}  // namespace heed::nn
