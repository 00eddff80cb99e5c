// heed train --dry-run and --overfit-batch: looks at a run that is not to be.
#pragma once

#include "tools/heed/train/train_run.h"

namespace heed {

/// UsageError with both numbers if a run needs more bytes of memory than are free.
void check_fit(double needed, double available);

/// Prints shapes, parameters, work, memory and the course of the learning rate. UsageError, after
/// that, if the machine's memory does not hold the run.
int dry_run(const nn::RunConfig& config, const TrainOptions& options);

/// Steps on one batch, without dropout, until its loss is within 1e-3 of the least possible: that
/// of knowing the batch by heart, above 0 where equal beginnings go on differently. kCheckFailed if
/// config.steps do not suffice.
int overfit_batch(nn::RunConfig config, const TrainOptions& options);

}  // namespace heed
