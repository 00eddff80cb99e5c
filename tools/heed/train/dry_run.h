// `heed train --dry-run`: what a run would cost, without a step.
#pragma once

#include "nn/train/config.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/report.h"

namespace heed {

inline constexpr Column kRateColumns[] = {{"step"}, {"lr"}};
inline constexpr Column kDryRunBefore[] = {{"task"}, {"steps"}};
inline constexpr Column kDryRunAfter[] = {
    {"flops_per_step"},      {"shards"},          {"bytes"}, {"seconds_per_step"}, {"seconds"},
    {"least_seconds"},       {"available_bytes"}, {"from"},  {"from_weights"},     {"frozen"},
    rows("lr", kRateColumns)};
inline constexpr auto kDryRunKeys = joined(kDryRunBefore, kModelKeys, kDryRunAfter);

/// Reports shapes, parameters, work, memory, time and learning rate of a run, without training. The
/// report fails with kUsage if the memory does not suffice. `quiet` hides the progress. Throws the
/// errors of Trainer's constructor.
Report dry_run(const nn::RunConfig& config, bool quiet);

}  // namespace heed
