// `heed study --over-time`: the numbers of each head at every checkpoint of a run.
#pragma once

#include <string>

#include "nn/study/over_time.h"
#include "nn/tasks/task.h"
#include "tools/heed/report/report.h"
#include "tools/plot/chart.h"

namespace heed {

/// Studies the checkpoints of a run. Writes over_time.csv, over_time.json, over_time.png and
/// report.html.
Report study_over_time(const std::string& run, const std::string& out, bool overwrite,
                       const std::vector<std::string>& formats);
/// Returns the keys of the result of study_over_time().
Columns over_time_keys();

/// Returns the table of over_time.csv: one row for each number, with step, layer, head, quantity
/// and value. If a row names a head, its quantity is one of nn::head_quantities(). If it names only
/// a layer, the quantity is a member of nn::LayerFlow. If it names neither, the quantity is loss,
/// counted_loss or optimal_loss.
Table over_time_table(const nn::OverTime& study);
/// Returns the chart of over_time.png: panels of losses, scores and gradients over training steps.
/// A vertical line marks the steepest fall of the loss.
plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskInfo& info);

}  // namespace heed
