// `heed study RUN RUN RUN ...`: the roles of the heads of many runs.
#pragma once

#include <vector>

#include "tools/heed/report/report.h"
#include "tools/heed/study/head_study.h"

namespace heed {

/// Measures the heads of each run and returns a report with one row for each run: the heads of each
/// role that change L. Throws the errors of study_heads().
Report run_roles(std::vector<Subject>& runs, const HeadArguments& a, const Command& c);
/// Returns the keys of the result of run_roles().
Columns run_role_keys();

}  // namespace heed
