// The picture effects.png of a study: predicted and measured changes of L.
#pragma once

#include <filesystem>
#include <vector>

#include "nn/study/cells.h"
#include "tools/heed/study/head_study.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {

/// Draws effects.png with a point for each of these cuts of cells and, if their L has the same
/// unit, for each head. Heads with a mark have labels, and so have the cells whose predictions are
/// farthest from their effects. Returns the paths of the files. Throws IoError.
Files draw_effects_of(const std::filesystem::path& folder, const Subject& s, const HeadStudy& heads,
                      const std::vector<nn::CellCut>& cells);

}  // namespace heed
