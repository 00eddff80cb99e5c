// `heed study --over-time`: the numbers of each component at every checkpoint of a run.
#pragma once

#include <string>

#include "nn/lab/study/over_time.h"
#include "nn/lab/tasks/task.h"
#include "tools/heed/report/out.h"
#include "tools/heed/study/study_options.h"
#include "tools/heed/study/subject.h"
#include "tools/plot/chart.h"

namespace heed {

/// Returns the file of the last checkpoint, relative to the run directory. Throws IoError if the
/// run has no checkpoints.
std::string last_checkpoint(const std::string& run);
/// Studies the checkpoints of a run. `subject` contains the weights of the last checkpoint, L, and
/// the sequence shown. L is measured on this sequence if --prompt or --sample selects it, and
/// otherwise on sequences of the task. Writes over_time.png and report.html.
Out study_over_time(const Subject& subject, const StudyOptions& options);

/// Returns the keys of lab::curve_quantities() in JSON, each after a blank.
std::string curve_names();
/// Returns a sentence about the component whose effect grows most during the steepest fall of the
/// loss, or "".
std::string what_forms(const lab::OverTime& study);
/// Returns the chart of over_time.png: panels over training steps, with a line for each component
/// that ever counts. A vertical line marks the steepest fall of the loss. `objective` and
/// `sequences` are texts that describe L and its sequences.
plot::ChartStack over_time_chart(const lab::OverTime& study, const lab::TaskInfo& info,
                                 const std::string& objective, const std::string& sequences);

}  // namespace heed
