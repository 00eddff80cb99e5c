// heed study --over-time: what training does to each head, from a run's checkpoints.
#pragma once

#include <string>

#include "nn/study/over_time.h"
#include "nn/tasks/task.h"
#include "tools/heed/report/report.h"
#include "tools/plot/chart.h"

namespace heed {

/// Studies the checkpoints of a run, and writes over_time.csv, .json and .png and the page.
Report study_over_time(const std::string& run, const std::string& out, bool overwrite);
/// The keys of its result.
Columns over_time_keys();

/// A row for each number: step, layer, head, quantity, value. Quantities are nn::head_quantities();
/// with a layer and no head those of LayerFlow; with neither loss, counted_loss and optimal_loss.
Table over_time_table(const nn::OverTime& study);
/// The panels of over_time.png: losses, scores, gradients over steps, the steepest fall marked.
plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskInfo& info,
                                 const std::string& run);

}  // namespace heed
