// The pictures of a study.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/patching.h"
#include "nn/study/study.h"
#include "tools/heed/pictures.h"
#include "tools/plot/chart.h"

namespace heed {

/// What the pictures say beside the numbers; arrays.safetensors keeps it as metadata.
struct StudyWords {
  std::string run;  ///< the folder's name
  std::string task;
  std::string objective;            ///< "the logit of c minus that of d, at position 5"
  std::vector<std::string> tokens;  ///< labels of the axes

  std::map<std::string, std::string> metadata() const;
};
/// L as --of and --at say it: "diff:c-d at 5".
std::string objective_text(const nn::Objective& o, const nn::TaskFacts& facts);
StudyWords study_words(const PictureSource& source, const nn::Objective& objective,
                       const std::vector<std::string>& tokens, const nn::TaskFacts& facts);

/// The heat map of a quantity by layer: of every head, or a large one of the head `only`.
plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyWords& words,
                             std::optional<nn::HeadIndex> only = {});

/// Each quantity as a PNG in `folder`: weights.png, dA.png and dS.png; and of the head `only`, if
/// any, weights_L1H0.png and so on. Returns the files. IoError.
std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study, const StudyWords& words,
                                              const PictureSource& source,
                                              std::optional<nn::HeadIndex> only);

/// by_distance.png: each head's mean weight, and dL/dS, by how far the key is before the query.
/// Returns the file.
std::filesystem::path draw_by_distance(const std::filesystem::path& folder, const nn::Study& study,
                                       const PictureSource& source);
/// Layer by position, a panel for each site; `tokens` are labels of the positions.
void draw_patching(const std::filesystem::path& file, const nn::Patching& patching,
                   const std::vector<std::string>& tokens, const PictureSource& source);
/// Says what colors and dashes stand for where a series is a head: colors are layers, dashes are
/// heads modulo kDashPatterns.
void name_heads(plot::ChartStack& stack, const std::vector<nn::HeadReport>& heads);

}  // namespace heed
