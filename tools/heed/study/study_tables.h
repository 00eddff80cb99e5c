// Tables of a study: the numbers of its heads, and tables of interventions as JSON.
#pragma once

#include <vector>

#include "nn/study/study.h"
#include "tools/heed/report/report.h"
#include "tools/heed/study/head_study.h"

namespace heed {

/// Returns the columns `layer`, `head`, one for each of nn::head_quantities(), and `needed`,
/// `suffices`, `predicted` and `mark` of nn::MeasuredHead.
Columns head_columns();
/// Adds a row for each head to a table with head_columns(), a row for equal weights, and a note
/// that explains the columns. `effects` has the effects, which are null if it has none.
void add_heads(Table& table, const nn::Study& study, const HeadStudy& effects);

/// Draws the attention weights of each head as text: one line for each query, and in it one of ten
/// characters, from light to dark, for each key. `labels` are the labels of the tokens.
std::string drawn_weights(const nn::Study& study, const std::vector<std::string>& labels);

/// Columns of an entry of "tables" in JSON and on the page.
inline constexpr Column kNameAndUnit[] = {{"name"}, {"unit"}};
inline constexpr Column kTableKeys[] = {
    {"title"}, {"what"}, rows("columns", kNameAndUnit), {"rows"}};
/// Returns the tables as JSON. The columns of these tables have labels but no keys, so each table
/// becomes an object with the names of its columns and the rows of its values.
Value tables_json(const std::vector<Table>& tables);

}  // namespace heed
