// The pictures of a study.
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

/// The heat map of a quantity by layer: of every head, or a large one of the head `only`.
plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& words,
                             std::optional<nn::HeadIndex> only = {});

// Each returns the files that it wrote. IoError.

/// Writes a picture. Its description is `before`, the title and the caption; its metadata are those
/// of the source, of a heat map the range of its colors, and `more`.
std::filesystem::path write_picture(const std::filesystem::path& file,
                                    const plot::HeatmapGrid& grid, const PictureSource& source,
                                    const std::vector<plot::PngText>& more = {},
                                    const std::string& before = "");
std::filesystem::path write_picture(const std::filesystem::path& file,
                                    const plot::ChartStack& stack, const PictureSource& source);

/// Each quantity as a PNG in `folder`: weights.png, dA.png and dS.png; and of the head `only`, if
/// any, weights_L1H0.png and so on.
std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study, const StudyTexts& words,
                                              const PictureSource& source,
                                              std::optional<nn::HeadIndex> only);
/// by_distance.png: each head's mean weight, and dL/dS, by how far the key is before the query.
std::filesystem::path draw_by_distance(const std::filesystem::path& folder, const nn::Study& study,
                                       const PictureSource& source);
/// patching.png: layer by position, a panel for each site; `tokens` are labels of the positions.
std::filesystem::path draw_patching(const std::filesystem::path& folder,
                                    const nn::Patching& patching,
                                    const std::vector<std::string>& tokens,
                                    const PictureSource& source);

/// A line of the head: colors are layers, dashes are heads modulo kDashPatterns.
plot::Series head_line(const nn::HeadIndex& head, std::vector<double> x, std::vector<double> y);
/// Explains the colors and dashes of head_line().
void name_heads(plot::ChartStack& stack, const std::vector<nn::HeadReport>& heads);

}  // namespace heed
