// What a run will cost, from passes of it that are measured on this machine.
#pragma once

#include <filesystem>
#include <functional>

#include "nn/train/trainer.h"

namespace heed::nn {

struct RunCost {
  double bytes;             ///< resident at the highest point, evaluations and pictures included
  double seconds_per_step;  ///< NaN if the run does not fit available_memory()
  double seconds;           ///< all steps, evaluations and the pictures at the end; likewise
};

/// Bytes are those of one evaluation, one forward and one backward pass on a quarter and on half of
/// a batch, drawn on to the whole: memory is affine in the sequences. Seconds are then those of
/// whole passes, repeated for a moment where they are short. Takes no step: weights and streams
/// stay as they are. Where Linux keeps the mark of memory that other passes left, bytes are those
/// of the whole batch, or at most so many if it might not fit. `pictures` draws what a run draws;
/// `root`: where /proc and /sys are. NumericError if the run's first gradient is not finite.
RunCost run_cost(Trainer& trainer, const std::function<void()>& pictures,
                 const std::filesystem::path& root = "/");

/// Operations of forward and backward for one token in a full context: 6 x parameters of matrix
/// products + 6 x layers x context x heads x (d_head + d_value) (Chowdhery et al. 2022, appendix B;
/// masked work counted).
double flops_per_token(const Transformer& model);

}  // namespace heed::nn
