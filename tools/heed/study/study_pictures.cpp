#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/ops.h"
#include "nn/study/blocks.h"
#include "tools/plot/color_range.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

// Returns a chart with a line for each head: the mean of the head's map at each distance from key
// to query.
plot::LineChart by_distance_chart(const nn::Study& study, const nn::Batch& batch, const char* title,
                                  nn::Tensor nn::LayerStudy::*maps) {
  plot::LineChart chart{
      .title = title, .x_name = "tokens from the key to the query", .height = 200};
  for (std::size_t l = 0; l < study.layers.size(); ++l) {
    const nn::Tensor means = nn::by_distance(study.layers[l].*maps, batch);
    std::vector<double> distances(std::size_t(means.size(1)));
    std::iota(distances.begin(), distances.end(), 0);
    for (std::int64_t h = 0; h < means.size(0); ++h)
      chart.series.push_back(
          head_line({std::int64_t(l), h}, distances, select(means, 0, h).to_vector<double>()));
  }
  return chart;
}

}  // namespace

std::string short_objective(const std::string& words) {
  constexpr std::size_t kLongest = 58;
  const std::string text =
      words.starts_with("the margin") ? words.substr(0, words.find(": ")) : words;
  return text.size() <= kLongest ? text : text.substr(0, text.rfind(' ', kLongest)) + " ...";
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
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts,
                             std::optional<nn::HeadIndex> only) {
  const nn::MapQuantity::Picture& picture = quantity.picture;
  const std::int64_t block = only ? 1 : nn::block_length(std::ssize(texts.tokens));
  plot::HeatmapGrid grid = heads_grid(maps, scores, block, only);
  grid.row_labels = grid.col_labels = only ? texts.tokens : block_labels(texts.tokens);
  grid.scale = quantity.is_signed ? plot::ColorScale::kDiverging : plot::ColorScale::kSequential;
  grid.title = fmt::format("{}, on {}", picture.heading, shortened_tokens(texts.tokens));
  grid.caption = picture.caption;
  if (quantity.is_signed)
    grid.caption = fmt::format("L is {}. {}", short_objective(texts.objective), picture.caption);
  if (block > 1)
    grid.caption += fmt::format(
        " A cell covers {0} x {0} tokens: the value with the largest magnitude.", block);
  grid.value_name = picture.value_name;
  grid.limit = quantity.values == &nn::LayerStudy::pattern
                   ? 1
                   : largest_magnitude(only ? heads_grid(maps, scores) : grid);
  return grid;
}

std::vector<Picture> map_pictures(const nn::Study& study, const StudyTexts& texts,
                                  std::optional<nn::HeadIndex> only) {
  const auto scores = study.by_layer(&nn::LayerStudy::scores);
  std::vector<Picture> pictures;
  const auto add = [&](const std::string& end, std::optional<nn::HeadIndex> head) {
    for (const nn::MapQuantity& q : nn::map_quantities())
      if (!q.picture.file.empty())
        pictures.push_back({std::string(q.picture.file) + end,
                            study_grid(q, study.by_layer(q.values), scores, texts, head),
                            fmt::format("Run {}, task {}; L is {}. {}", texts.run, texts.task,
                                        texts.objective, q.what)});
  };
  add("", {});
  if (only) add("_" + nn::head_name(*only), only);
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

Picture by_distance_picture(const nn::Study& study, const nn::Batch& batch) {
  plot::ChartStack stack;
  stack.title = "Attention by distance";
  stack.caption = "Means over sequences and queries.";
  stack.panels = {by_distance_chart(study, batch, "weight A", &nn::LayerStudy::pattern),
                  by_distance_chart(study, batch, "dL/dS", &nn::LayerStudy::scores_grad)};
  name_heads(stack, study.heads.back());
  return {"by_distance", std::move(stack),
          "Each point is the mean over all queries that have a token at this distance. Where dL/dS "
          "is negative, a higher score would lower L."};
}

}  // namespace heed
