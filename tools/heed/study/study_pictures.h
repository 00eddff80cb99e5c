// Pictures of a study.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/patching.h"
#include "tools/heed/pictures.h"
#include "tools/heed/study/subject.h"
#include "tools/plot/chart.h"

namespace heed {

/// Returns the heat maps of a quantity: one panel for each head or, if `only` is given, one large
/// panel for this head. `maps` and `scores` contain one tensor [1, H, T, T] for each layer. A cell
/// whose score is -inf is masked.
plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts,
                             std::optional<nn::HeadIndex> only = {});

// The following functions return the paths of the files that they write. They throw IoError.

///@{
/// Writes a picture. Its description (for readers who cannot see it) is `before`, the title and the
/// caption. Its metadata are those of png_metadata() and, after them, `more`.
std::filesystem::path write_picture(const std::filesystem::path& file,
                                    const plot::HeatmapGrid& grid, const PictureSource& source,
                                    const std::vector<plot::PngText>& more = {},
                                    const std::string& before = "");
std::filesystem::path write_picture(const std::filesystem::path& file,
                                    const plot::ChartStack& stack, const PictureSource& source);
///@}

/// Draws each quantity into `folder`: weights.png, dA.png and dS.png. If `only` is given, also
/// draws this head alone: weights_L1H0.png and so on.
std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study, const StudyTexts& texts,
                                              const PictureSource& source,
                                              std::optional<nn::HeadIndex> only);
/// Draws by_distance.png: for each head, the mean weight and the mean dL/dS (S: the scores) at each
/// distance from the key to the query. `study` is that of `batch`.
std::filesystem::path draw_by_distance(const std::filesystem::path& folder, const nn::Study& study,
                                       const nn::Batch& batch, const PictureSource& source);
/// Draws patching.png: a panel for each kind of activation that was patched, whose rows are layers
/// and whose columns are positions. `tokens` are the labels of the positions.
std::filesystem::path draw_patching(const std::filesystem::path& folder,
                                    const nn::Patching& patching,
                                    const std::vector<std::string>& tokens,
                                    const PictureSource& source);

/// Returns the line of a head in a chart. The layer determines the color of the line, and the head
/// modulo plot::kDashPatterns determines its dash pattern.
plot::Series head_line(const nn::HeadIndex& head, std::vector<double> x, std::vector<double> y);
/// Adds the legend for the colors and dash patterns of head_line().
void name_heads(plot::ChartStack& stack, const std::vector<nn::HeadReport>& heads);

}  // namespace heed
