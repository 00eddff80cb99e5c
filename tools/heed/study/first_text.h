// The first text of a study: which heads of the model matter and what they do.
#pragma once

#include <string>
#include <vector>

#include "tools/heed/report/report.h"
#include "tools/heed/study/head_study.h"

namespace heed {

/// Columns of an entry of "claims" in JSON: the statements of the first text whose numbers hold on
/// other sequences, too.
inline constexpr Column kClaim[] = {{"heads"}, {"role"}, {"quantity"}, {"value"}};
/// Returns the claims, as a table with kClaim.
Table claims(const HeadStudy& study);
/// Returns the first text of a study: which heads matter and what they do, in lines.
std::vector<std::string> first_text(const HeadStudy& study, const Subject& s);

}  // namespace heed
