// heed study --over-time: what training does to each head, from a run's checkpoints.
#pragma once

#include <string>
#include <vector>

#include "nn/study/over_time.h"
#include "nn/tasks/task.h"
#include "tools/plot/chart.h"

namespace heed {

struct OverTimeArguments {
  std::string run, out;
  bool overwrite = false, json = false;
};

/// Prints a table, or JSON, and writes over_time.csv, .json and .png. Returns the exit code.
int study_over_time(const OverTimeArguments& arguments);

/// The panels of over_time.png: losses, scores, gradients over steps, the steepest fall marked.
plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskFacts& facts,
                                 const std::string& run);

/// Says what colors and dashes stand for where a series is a head: colors are layers, dashes are
/// heads modulo kDashPatterns.
void name_heads(plot::ChartStack& stack, const std::vector<nn::HeadReport>& heads);

}  // namespace heed
