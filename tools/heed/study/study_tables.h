// The tables of a study: its heads, and those that explain it on the page, in text and in JSON.
#pragma once

#include <utility>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/study.h"
#include "tools/heed/report/report.h"

namespace heed {

/// layer, head, every nn::head_quantities(), cut and saturated.
Columns head_columns();
/// Adds a row for each head. `cuts`: what L is more by without each head, in the study's order;
/// empty: not measured. The note explains what the rows have.
void add_heads(Table& table, const nn::Study& study, const std::vector<nn::Effect>& cuts);
/// What L is more by without head i, and whether the gradient denies it; null if not measured.
std::pair<Value, Value> cut_of(const nn::Study& study, const std::vector<nn::Effect>& cuts,
                               std::size_t i);

/// Each head's numbers, means over the sequences of a study of many.
Table sequences_table(const nn::Study& study, const std::string& objective);

/// "tables" in JSON and on the page: their columns are in text only.
inline constexpr Column kNameAndUnit[] = {{"name"}, {"unit"}};
inline constexpr Column kTableKeys[] = {
    {"title"}, {"what"}, rows("columns", kNameAndUnit), {"rows"}};
Value tables_json(const std::vector<Table>& tables);

}  // namespace heed
