// Very short training runs, and comparison of their files.
#pragma once

#include "autograd/base/files.h"
#include "nn/run/run_folder.h"
#include "nn/train/trainer.h"
#include "tests/support/catch.h"

namespace heed::nn::testing {

/// Returns a run of 12 steps with all state that a resumed run must restore: moments, a schedule
/// and dropout.
inline RunConfig tiny_run(const char* task = "reverse") {
  RunConfig c = preset(task);
  c.model.attention.d_model = 16, c.model.attention.heads = 2, c.model.context = 8, c.batch = 8,
  c.eval_batch = 16;
  c.steps = 12, c.warmup = 2, c.schedule = Decay::kCosine, c.model.attention.dropout = 0.1;
  return c;
}

/// Trains until `step` and evaluates every `eval_every` steps; 0 means never.
inline void run_to(Trainer& t, std::int64_t step, std::int64_t eval_every) {
  while (t.steps_done < step) {
    t.step();
    if (eval_every > 0 && t.steps_done % eval_every == 0) t.evaluate(false);
  }
}

/// Returns the message of the NumericError of the next step, or "" if there is none.
inline std::string error_of_step(Trainer& t) {
  return message_of<autograd::NumericError>([&] { t.step(); });
}

/// Returns the contents of a file.
inline std::string bytes_of(const std::filesystem::path& file) {
  return autograd::read_file(file.string());
}

/// Checks that two run directories have the same files, byte for byte. `best` is true if the run
/// was evaluated and therefore has best.safetensors.
inline void check_same_run(const std::filesystem::path& a, const std::filesystem::path& b,
                           bool best = true) {
  for (const char* file : {"model.safetensors", "best.safetensors", "state.safetensors",
                           "metrics.csv", "config.toml"}) {
    CAPTURE(file);
    if (best || file != std::string("best.safetensors"))
      CHECK(bytes_of(a / file) == bytes_of(b / file));
  }
}

}  // namespace heed::nn::testing
