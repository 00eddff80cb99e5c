// Very short training runs, and functions that compare and change their files.
#pragma once

#include "autograd/base/files.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/train/trainer.h"
#include "tests/support/catch.h"

namespace heed::lab::testing {

/// Returns the configuration of a run of 12 steps. The run has every kind of state that a resume
/// must restore: moments of the optimizer, a schedule, and dropout.
inline RunConfig tiny_run(const char* task = "reverse") {
  RunConfig c = preset(task);
  c.model.attention.d_model = 16, c.model.attention.heads = 2, c.model.context = 8, c.batch = 8,
  c.eval_batch = 16;
  c.steps = 12, c.warmup = 2, c.schedule = Decay::kCosine, c.model.attention.dropout = 0.1;
  return c;
}

/// Task whose training batch is always the same, whatever size is requested.
class FixedBatch : public Task {
 public:
  /// Creates a task with these facts and this batch.
  FixedBatch(TaskInfo info, std::vector<Sequence> batch)
      : Task(std::move(info)), batch_(std::move(batch)) {}

 private:
  Sequence draw(Generator&) const override { return batch_[0]; }
  std::vector<Sequence> draw_batch(Index, Generator&) const override { return batch_; }
  std::vector<Sequence> batch_;
};

/// Trains until `step`. Evaluates every `eval_every` steps, or never if `eval_every` is 0.
inline void run_to(Trainer& t, Index step, Index eval_every) {
  while (t.steps_done < step) {
    t.step();
    if (eval_every > 0 && t.steps_done % eval_every == 0) t.evaluate(false);
  }
}

/// Runs the next step. Returns the message of the NumericError that it throws, or "" if it throws
/// none.
inline std::string error_of_step(Trainer& t) {
  return message_of<autograd::NumericError>([&] { t.step(); });
}

/// Returns the contents of a file.
inline std::string bytes_of(const std::filesystem::path& file) {
  return autograd::read_file(file.string());
}

/// Returns the text of a configuration with another spelling of lr.
inline std::string spelled(std::string text, const std::string& lr) {
  const std::size_t at = text.find("\nlr = ") + 1;
  return text.replace(at, text.find('\n', at) - at, "lr = " + lr);
}

/// Changes one metadata entry of a safetensors file. The new file has a correct checksum.
inline void change_metadata(const std::filesystem::path& file, const std::string& key,
                            const std::string& value) {
  SafeTensors content = load_safetensors(file.string());
  content.metadata.at(key) = value;
  save_safetensors(file.string(), content.tensors, content.metadata);
}

/// Checks that the files of two run directories are equal, byte for byte. `best` is true if the
/// runs were evaluated during training and therefore contain best.safetensors.
inline void check_same_run(const std::filesystem::path& a, const std::filesystem::path& b,
                           bool best = true) {
  for (const char* file : {"model.safetensors", "best.safetensors", "state.safetensors",
                           "metrics.csv", "config.toml"}) {
    CAPTURE(file);
    if (best || file != std::string("best.safetensors"))
      CHECK(bytes_of(a / file) == bytes_of(b / file));
  }
}

}  // namespace heed::lab::testing
