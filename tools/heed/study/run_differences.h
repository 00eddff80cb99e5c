// `heed study A B`: compares the heads of two runs on one sequence.
#pragma once

#include <string>

#include "nn/study/matching.h"
#include "nn/study/study.h"
#include "tools/heed/report/report.h"
#include "tools/heed/study/subject.h"
#include "tools/plot/heatmap.h"

namespace heed {

/// Compares run B with run A, the run of subject `a`, on the sequence of `a`. `other` is the
/// directory of run B, and `weights` the name of the weights file in it. Writes pictures and the
/// page into the directory that open_study_folder() returns for `out`. Throws UsageError if run B
/// cannot read the sequence, because its vocabulary is different or its context is shorter.
Report run_differences(const Subject& a, const std::string& other, const std::string& weights,
                       const std::string& out, bool overwrite);
/// Returns the keys of the result of run_differences().
Columns run_difference_keys();

/// Returns the heat maps of B minus A: `difference` is nn::difference_of() two studies with these
/// matches. The title of a panel names both heads, or states "no match".
plot::HeatmapGrid difference_grid(const nn::Study& difference, const nn::MapQuantity& quantity,
                                  const std::vector<nn::HeadMatch>& matches);

}  // namespace heed
