// Tables of the effects of heads, of pairs of heads and of sets of heads.
#pragma once

#include <vector>

#include "tools/heed/report/report.h"
#include "tools/heed/study/head_study.h"

namespace heed {

/// Returns the tables of effects: of all heads, of pairs (--ablate all) and of sets (--ablate and
/// --keep).
std::vector<Table> effect_tables(const HeadStudy& study, const HeadArguments& a, const Command& c,
                                 const Subject& s);

}  // namespace heed
