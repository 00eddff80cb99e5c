// heed train --dry-run and --overfit-batch: what can be known of a run before it is trained.
#pragma once

#include <string>

#include "nn/train/config.h"
#include "tools/heed/report/model_report.h"

namespace heed {

inline constexpr Column kRateColumns[] = {{"step"}, {"lr"}};
inline constexpr Column kDryRunBefore[] = {{"task"}, {"steps"}};
inline constexpr Column kDryRunAfter[] = {{"flops_per_step"},   {"bytes"},
                                          {"seconds_per_step"}, {"seconds"},
                                          {"available_bytes"},  rows("lr", kRateColumns)};
inline constexpr auto kDryRunKeys = joined(kDryRunBefore, kModelKeys, kDryRunAfter);

/// Returns shapes, parameters, work, memory and the course of the learning rate. Fails with kUsage
/// if the machine's memory does not hold the run.
Report dry_run(const nn::RunConfig& config, bool quiet);
/// Returns the error of a run that needs more bytes than are available, or "".
std::string memory_shortage(double needed, double available);

inline constexpr Column kOverfitKeys[] = {{"task"}, {"steps"},      {"seconds"},
                                          {"loss"}, {"least_loss"}, {"learned"}};

/// Trains on one batch, without dropout, until its loss is within 1e-3 of the least possible: that
/// of a model that knows the batch by heart, above 0 where equal beginnings continue differently.
/// Fails with kCheckFailed if config.steps do not suffice.
Report overfit_batch(nn::RunConfig config, bool quiet);

}  // namespace heed
