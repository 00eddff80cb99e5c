// `heed study --over-time`: the numbers of each head at every checkpoint of a run.
#pragma once

#include <string>

#include "nn/study/over_time.h"
#include "nn/tasks/task.h"
#include "tools/heed/report/out.h"
#include "tools/heed/study/head_study.h"
#include "tools/plot/chart.h"

namespace heed {

/// Returns the file of the last checkpoint, relative to the run directory. Throws IoError if the
/// run has no checkpoints.
std::string last_checkpoint(const std::string& run);
/// Studies the checkpoints of a run. `subject` contains the weights of the last checkpoint, L, and
/// the sequence of the page. L is measured on this sequence if --prompt or --sample selects it, and
/// otherwise on sequences of the task. Writes over_time.png and report.html.
Out study_over_time(const Subject& subject, const HeadArguments& heads, const Command& c,
                    const std::string& out);

/// Returns a sentence about the first layer with a head whose induction score reaches 0.5 after the
/// first checkpoint, or "".
std::string induction_forms(const nn::OverTime& study);
/// Returns the chart of over_time.png: panels of losses, scores and gradients over training steps.
/// A vertical line marks the steepest fall of the loss. `objective` and `sequences` are texts that
/// describe L and its sequences.
plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskInfo& info,
                                 const std::string& objective, const std::string& sequences);

}  // namespace heed
