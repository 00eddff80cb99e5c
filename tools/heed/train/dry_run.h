// `heed train --dry-run`: what a run would cost.
#pragma once

#include "nn/train/config.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/report.h"

namespace heed {

inline constexpr Column kRateColumns[] = {{"step"}, {"lr"}};
inline constexpr Column kDryRunBefore[] = {{"task"}, {"steps"}};
inline constexpr Column kDryRunAfter[] = {{"flops_per_step"}, {"shards"},
                                          {"bytes"},          {"seconds_per_step"},
                                          {"seconds"},        {"available_bytes"},
                                          {"from"},           {"from_weights"},
                                          {"frozen"},         rows("lr", kRateColumns)};
inline constexpr auto kDryRunKeys = joined(kDryRunBefore, kModelKeys, kDryRunAfter);

/// Reports shapes, parameters, work, nn::run_bytes(), time and learning rate of a run, and writes
/// nothing. The time is that of the second and third step, without evaluations. It is unknown if
/// three steps take more than 20 s. `quiet` hides the progress. Throws the errors of Trainer's
/// constructor and of Trainer::step().
Report dry_run(const nn::RunConfig& config, bool quiet);

}  // namespace heed
