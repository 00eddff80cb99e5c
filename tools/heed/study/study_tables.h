// The tables of a study: its heads, and those that explain it on the page, in text and in JSON.
#pragma once

#include <vector>

#include "nn/study/study.h"
#include "tools/heed/report/report.h"

namespace heed {

/// layer, head, every nn::head_quantities(), cut and saturated.
Columns head_columns();
/// Adds a row for each head. The note explains what the rows have.
void add_heads(Table& table, const nn::Study& study);

/// "tables" in JSON and on the page: their columns are in text only.
inline constexpr Column kNameAndUnit[] = {{"name"}, {"unit"}};
inline constexpr Column kTableKeys[] = {
    {"title"}, {"what"}, rows("columns", kNameAndUnit), {"rows"}};
Value tables_json(const std::vector<Table>& tables);

}  // namespace heed
