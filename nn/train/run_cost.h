// What a run will cost, from passes of it that are measured on this machine.
#pragma once

#include <functional>

#include "nn/train/memory.h"
#include "nn/train/trainer.h"

namespace heed::nn {

struct RunCost {
  double bytes;             ///< resident at the highest point, evaluations and pictures included
  double seconds_per_step;  ///< NaN if the run does not fit the available memory
  double seconds;           ///< all steps, evaluations and the pictures at the end; likewise
};

/// Measures one evaluation, one forward and one backward pass. Takes no step: weights and streams
/// stay as they are. Bytes are measured on a quarter and on half of a batch and extrapolated, as
/// memory is affine in the sequences. Where Linux does not let a process reset its peak of memory
/// (`can_reset`), a whole batch is measured, or twice a half where a whole one may not fit. Seconds
/// are those of whole passes, repeated for a moment where they are short. `pictures` draws what a
/// run draws; `available`: bytes, available_memory(). NumericError if the run's first gradient is
/// not finite.
RunCost run_cost(Trainer& trainer, const std::function<void()>& pictures, double available,
                 bool can_reset = reset_resident_peak());

}  // namespace heed::nn
