#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/plot/plot.h"

namespace heed {

namespace {

// Returns L in words as a part of a caption. If the text is longer than 58 characters, its end is
// replaced by " ...".
std::string short_objective(const std::string& words) {
  constexpr std::size_t kLongest = 58;
  return words.size() <= kLongest ? words : words.substr(0, words.rfind(' ', kLongest)) + " ...";
}

}  // namespace

plot::HeatmapGrid study_grid(const lab::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts) {
  constexpr Index kLongest = 128, kMost = 112;  // tokens; blocks of a longer sequence
  const Index length = std::ssize(texts.tokens),
              block = length <= kLongest ? 1 : (length + kMost - 1) / kMost;
  plot::HeatmapGrid grid = heads_grid(maps, scores, texts.tokens, block);
  grid.scale = quantity.is_signed ? plot::ColorScale::kDiverging : plot::ColorScale::kSequential;
  grid.title = fmt::format("{}, on {}", quantity.heading, shortened_tokens(texts.tokens));
  grid.caption = quantity.caption;
  if (quantity.is_signed)
    grid.caption = fmt::format("L is {}. {}", short_objective(texts.objective), quantity.caption);
  if (block > 1)
    grid.caption += fmt::format(
        " A cell covers {0} x {0} tokens: the value with the largest magnitude.", block);
  grid.value_name = quantity.value_name;
  if (quantity.values == &lab::LayerStudy::pattern) grid.limit = 1;
  return grid;
}

std::vector<Picture> map_pictures(const lab::Study& study, const StudyTexts& texts) {
  const auto scores = study.by_layer(&lab::LayerStudy::scores);
  std::vector<Picture> pictures;
  for (const lab::MapQuantity& q : lab::map_quantities())
    pictures.push_back({std::string(q.file), study_grid(q, study.by_layer(q.values), scores, texts),
                        fmt::format("Run {}, task {}; L is {}. {}", texts.run, texts.task,
                                    texts.objective, q.what)});
  return pictures;
}

}  // namespace heed
