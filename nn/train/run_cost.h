// What a run will cost, from passes of it that are measured on this machine.
#pragma once

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
/// stay as they are. `pictures` draws what a run draws.
RunCost run_cost(Trainer& trainer, const std::function<void()>& pictures);

}  // namespace heed::nn
