// How the ranks of heed train begin: rank 0 makes or reads the run, then the others do likewise,
// and all compare what they have.
#pragma once

#include <functional>

#include "nn/train/trainer.h"

namespace heed {

/// UsageError unless so many processes can share the parts of a batch.
void check_ranks(int processes, std::int64_t accumulate);

/// Rank 0 has `trainer`: the others make or read the same now, and all train together from then on.
/// `ranks` null: alone. UsageError where they are not the same run by the same instructions.
void lead(nn::Trainer& trainer, nn::Exchange* ranks);
/// Rank 0 found nothing to train.
void lead_nowhere(nn::Exchange* ranks);

/// The other ranks, from there to the end of the run: `make` makes or reads it. Exit code.
int follow(nn::Exchange& ranks, const std::function<nn::Trainer()>& make);

}  // namespace heed
