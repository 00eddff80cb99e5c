#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nn/study/blocks.h"
#include "tools/plot/plot.h"

namespace heed {

std::string short_objective(const std::string& words) {
  constexpr std::size_t kLongest = 58;
  return words.size() <= kLongest ? words : words.substr(0, words.rfind(' ', kLongest)) + " ...";
}

std::vector<std::string> block_labels(const std::vector<std::string>& tokens) {
  const auto length = std::int64_t(tokens.size()), block = nn::block_length(length);
  if (block == 1) return tokens;
  std::vector<std::string> labels;
  for (std::int64_t t = 0; t < length; t += block)
    labels.push_back(fmt::format("{}-{}", t, std::min(t + block, length) - 1));
  return labels;
}

double largest_magnitude(const plot::HeatmapGrid& grid) {
  float largest = 0;
  for (const plot::Panel& panel : grid.panels)
    for (std::size_t i = 0; i < panel.values.size(); ++i)
      if (std::isfinite(panel.values[i]) && (panel.masked.empty() || panel.masked[i] == 0))
        largest = std::max(largest, std::abs(panel.values[i]));
  return double(largest);
}

plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts) {
  const std::int64_t block = nn::block_length(std::ssize(texts.tokens));
  plot::HeatmapGrid grid = heads_grid(maps, scores, block);
  grid.row_labels = grid.col_labels = block_labels(texts.tokens);
  grid.scale = quantity.is_signed ? plot::ColorScale::kDiverging : plot::ColorScale::kSequential;
  grid.title = fmt::format("{}, on {}", quantity.heading, shortened_tokens(texts.tokens));
  grid.caption = quantity.caption;
  if (quantity.is_signed)
    grid.caption = fmt::format("L is {}. {}", short_objective(texts.objective), quantity.caption);
  if (block > 1)
    grid.caption += fmt::format(
        " A cell covers {0} x {0} tokens: the value with the largest magnitude.", block);
  grid.value_name = quantity.value_name;
  grid.limit = quantity.values == &nn::LayerStudy::pattern ? 1 : largest_magnitude(grid);
  return grid;
}

std::vector<Picture> map_pictures(const nn::Study& study, const StudyTexts& texts) {
  const auto scores = study.by_layer(&nn::LayerStudy::scores);
  std::vector<Picture> pictures;
  for (const nn::MapQuantity& q : nn::map_quantities())
    pictures.push_back({std::string(q.file), study_grid(q, study.by_layer(q.values), scores, texts),
                        fmt::format("Run {}, task {}; L is {}. {}", texts.run, texts.task,
                                    texts.objective, q.what)});
  return pictures;
}

plot::Series head_line(const nn::HeadIndex& head, std::vector<double> x, std::vector<double> y) {
  return {.x = std::move(x),
          .y = std::move(y),
          .dash = int(std::max<std::int64_t>(head.head, 0) % plot::kDashPatterns),
          .color = int(head.layer)};
}

void name_heads(plot::ChartStack& stack, const nn::HeadIndex& last) {
  for (std::int64_t l = 0; l <= last.layer; ++l) stack.colors.push_back(fmt::format("layer {}", l));
  for (std::int64_t h = 0; h <= last.head; ++h)
    if (h < plot::kDashPatterns)
      stack.dashes.push_back(fmt::format("head {}", h));
    else
      stack.dashes[std::size_t(h % plot::kDashPatterns)] += fmt::format(", {}", h);
}

}  // namespace heed
