// heed compare's pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/compare/compare_report.h"
#include "tools/plot/chart.h"

namespace heed {

/// Means over the steps of training, a curve per setting, the first kMostCurves of them, each in a
/// band of one standard error to either side.
inline constexpr std::size_t kMostCurves = 8;
plot::LineChart curves_chart(const RunComparison& c);

/// A number of each setting against the value of one option, a color for each combination of the
/// others: as curves, from left to right, where the values are numbers, else as points. `number`:
/// final, or steps to the target, where a setting of which not all runs reach it is not drawn but
/// named in the title.
plot::LineChart against_chart(const RunComparison& c, const std::string& option,
                              nn::MeanError ComparedGroup::*number);

/// curves.png and, unless `against` is empty, against.png and, of a target, steps.png. IoError.
std::vector<std::filesystem::path> draw_comparison(const std::filesystem::path& folder,
                                                   const RunComparison& c,
                                                   const std::string& against);

}  // namespace heed
