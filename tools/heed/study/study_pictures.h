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
/// cell is a block of tokens (blocks.h). The scale of attention weights ends at 1, any other scale
/// at the largest magnitude over the unmasked cells of all heads.
plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts);

/// Returns L in words as a part of a caption. If the text is longer than 58 characters, its end is
/// replaced by " ...".
std::string short_objective(const std::string& words);
/// Returns the labels of the tokens. If the sequence is long, returns labels of blocks of tokens
/// (blocks.h), such as "0-4".
std::vector<std::string> block_labels(const std::vector<std::string>& tokens);
/// Returns the largest magnitude over the unmasked, finite cells of all panels.
double largest_magnitude(const plot::HeatmapGrid& grid);

/// Returns the pictures of the maps: weights.png, dA.png, dS.png and so on.
std::vector<Picture> map_pictures(const nn::Study& study, const StudyTexts& texts);

/// Returns the line of a head in a chart. The layer determines the color of the line, and the head
/// modulo plot::kDashPatterns determines its dash pattern. For a layer (head -1), the line has the
/// pattern of head 0. For the model (layer and head -1), it also has no color.
plot::Series head_line(const nn::HeadIndex& head, std::vector<double> x, std::vector<double> y);
/// Adds the legend for the colors and dash patterns of head_line() of all heads up to `last`.
void name_heads(plot::ChartStack& stack, const nn::HeadIndex& last);

}  // namespace heed
