// The table of heads.
#pragma once

#include <vector>

#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"

namespace heed {

/// Returns the columns `head`, one for each of nn::head_quantities(), and `mark`.
std::vector<Column> head_columns();
/// Returns the row of a head, with a cell for each of head_columns().
std::vector<Value> head_row(const nn::HeadReport& head, const std::string& name, Value mark);
/// Returns a table with head_columns(): a row for each head, a row for equal weights, and a note
/// that explains the columns.
Table head_table(StudyContext& context);
/// Returns the key "heads" of JSON: an object for each head.
Value heads_json(StudyContext& context);

}  // namespace heed
