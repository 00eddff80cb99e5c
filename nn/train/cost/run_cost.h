// Cost of a run, estimated from a few passes that are measured on this machine.
#pragma once

#include <functional>

#include "nn/train/cost/memory.h"
#include "nn/train/trainer.h"

namespace heed::nn {

/// Memory and time of a run.
struct RunCost {
  double bytes;             ///< peak of resident memory, with evaluations and pictures
  double seconds_per_step;  ///< NaN if the run needs more memory than is available
  /// Seconds of all steps, all evaluations and the pictures at the end. NaN if the run needs more
  /// memory than is available.
  double seconds;
  /// Lower bound of the seconds of all steps: their FLOP at the speed of a matrix product. NaN if
  /// the time is measured.
  double least_seconds;
};

/// Estimates the cost of a run from measured evaluations, passes and updates of the weights.
/// Weights and random streams are unchanged afterwards.
///
/// Bytes are measured on a quarter and on half of a shard, and extrapolated to a whole shard,
/// because memory is affine in the number of sequences. If Linux does not let a process reset its
/// peak of memory (`can_reset` is false), a whole shard is measured instead. If this may not fit
/// into memory, the bytes of half a shard are doubled. Seconds are measured on whole shards; short
/// passes are repeated. If these passes take more than about `longest` seconds, none runs: bytes
/// then are those of a formula, and instead of the seconds, least_seconds is set. `pictures` draws
/// the pictures of a run. `available` is in bytes; pass available_memory(). Throws NumericError if
/// the run's first gradient is not finite.
RunCost run_cost(Trainer& trainer, const std::function<void()>& pictures, double available,
                 bool can_reset = reset_resident_peak(), double longest = 20);

}  // namespace heed::nn
