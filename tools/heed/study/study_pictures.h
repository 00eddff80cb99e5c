// The pictures of a study.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/study.h"
#include "tools/heed/heads_grid.h"
#include "tools/heed/pictures.h"

namespace heed {

/// What the pictures say beside the numbers; arrays.safetensors keeps it as metadata.
struct StudyWords {
  std::string run;  ///< the folder's name
  std::string task;
  std::string objective;            ///< "the logit of c minus that of d, at position 5"
  std::vector<std::string> tokens;  ///< labels of the axes

  std::map<std::string, std::string> metadata() const;
};
/// Positions as words: "3", "3 and 5".
std::string places_text(const std::vector<std::int64_t>& positions);
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

}  // namespace heed
