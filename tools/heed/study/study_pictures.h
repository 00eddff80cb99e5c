// Pictures of a study.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/pictures.h"
#include "tools/heed/study/section.h"
#include "tools/heed/study/subject.h"
#include "tools/plot/chart.h"

namespace heed {

/// Returns the heat maps of a quantity: one panel for each head. `maps` and `scores` contain one
/// tensor [1, H, T, T] for each layer. A cell whose score is -inf is masked. In a long sequence, a
/// cell is a block of tokens. The scale of attention weights ends at 1, any other scale
/// at the largest magnitude over the unmasked cells of all heads.
plot::HeatmapGrid study_grid(const lab::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts);

/// Returns the pictures of the maps: weights.png, dA.png, dS.png and so on.
std::vector<Picture> map_pictures(const lab::Study& study, const StudyTexts& texts);

}  // namespace heed
