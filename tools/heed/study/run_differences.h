// `heed study A B`: compares the heads of two runs on one sequence.
#pragma once

#include <string>

#include "tools/heed/report/report.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Compares run B with run A, the run of subject `a`, on the sequence of `a`. `other` is the
/// directory of run B, and `weights` the name of the weights file in it. Writes pictures and the
/// page into the directory that open_study_folder() returns for `out`. Throws UsageError if run B
/// has another vocabulary, predicts another number of tokens, or has a context that is shorter than
/// the sequence.
Report run_differences(const Subject& a, const std::string& other, const std::string& weights,
                       const std::string& out, bool overwrite);
/// Returns the JSON keys of the report of run_differences(). The help text lists them.
Columns run_difference_keys();

}  // namespace heed
