// The table of heads.
#pragma once

#include <vector>

#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"

namespace heed {

/// Returns the columns `layer`, `head`, one for each of nn::head_quantities(), and `mark`.
Columns head_columns();
/// Returns the row of a head, with a cell for each of head_columns().
std::vector<Value> head_row(const nn::HeadReport& head, const std::string& name, Value mark);
/// Adds a row for each head to a table with head_columns(), a row for equal weights, and a note
/// that explains the columns.
void add_heads(Table& table, StudyContext& context);
/// Returns the table of add_heads() as a section, for the page.
Section heads_section(StudyContext& context);

}  // namespace heed
