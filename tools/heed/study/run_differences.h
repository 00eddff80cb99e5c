// heed study A B: the heads of two runs on one sequence, and where their weights part.
#pragma once

#include <string>

#include "nn/study/study.h"
#include "tools/heed/report/report.h"
#include "tools/heed/study/subject.h"
#include "tools/plot/heatmap.h"

namespace heed {

/// Compares run `other`, with the weights of this name, to the subject's, and draws what differs
/// into `out`, as open_study_folder() takes it. UsageError where run B cannot read the sequence:
/// another vocabulary, or a shorter context.
Report run_differences(const Subject& a, const std::string& other, const std::string& weights,
                    const std::string& out, bool overwrite);
/// The keys of its result.
Columns comparison_keys();

/// The maps of a quantity of run B minus those of run A, for each head that both have; both studies
/// are of one sequence.
plot::HeatmapGrid difference_grid(const nn::Study& a, const nn::Study& b,
                                  const nn::MapQuantity& quantity);

}  // namespace heed
