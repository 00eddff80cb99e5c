// Cuts of cells in the sequence of a study: the table of the cells with the largest effects, and
// that of --cut.
#pragma once

#include <string>
#include <vector>

#include "nn/study/cells.h"
#include "tools/heed/report/report.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Measures the cuts of nn::notable_cells(). `study` is the study of the subject.
std::vector<nn::CellCut> measure_notable_cells(const Subject& s, const nn::Study& study);

/// Returns the marks of these cuts; null if no effect counts (Subject::predicts).
std::vector<Value> marks_of_cells(const std::vector<nn::CellCut>& cuts, const Subject& s);

/// Returns the table of these cuts, each of one cell, with the largest effect or prediction first.
Table cell_table(const std::vector<nn::CellCut>& cuts, const Subject& s, const nn::Study& study);

/// Measures the cells of --cut, all at once, and returns a table with one row. Throws ValueError,
/// whose text begins with --cut, if `cut` is not a list of cells.
Table cut_table(const std::string& cut, const Subject& s, const nn::Study& study);

}  // namespace heed
