#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include <numeric>

#include "autograd/base/parallel.h"
#include "autograd/ops/ops.h"
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

plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyTexts& texts,
                             std::optional<nn::HeadIndex> only) {
  const nn::MapQuantity::Picture& picture = quantity.picture;
  plot::HeatmapGrid grid = heads_grid(maps, scores, only);
  grid.row_labels = grid.col_labels = texts.tokens;
  grid.scale = quantity.is_signed ? plot::ColorScale::kDiverging : plot::ColorScale::kSequential;
  grid.title =
      fmt::format("{}; run {}, on {}", picture.heading, texts.run, shortened_tokens(texts.tokens));
  grid.caption = picture.caption;
  if (quantity.is_signed)
    grid.caption = fmt::format("L is {}. {}", texts.objective, picture.caption);
  grid.value_name = picture.value_name;
  grid.hatch = picture.hatched;
  if (picture.hatched) grid.masked = "of a weight that the mask hides";
  return grid;
}

std::filesystem::path write_picture(const std::filesystem::path& file,
                                    const plot::HeatmapGrid& grid, const PictureSource& source,
                                    const std::vector<plot::PngText>& more,
                                    const std::string& before) {
  std::vector<plot::PngText> metadata = png_metadata(source, grid);
  metadata.insert(metadata.end(), more.begin(), more.end());
  plot::write_png(file.string(), plot::draw_heatmap(grid),
                  before + grid.title + ". " + grid.caption, metadata);
  return file;
}

std::filesystem::path write_picture(const std::filesystem::path& file,
                                    const plot::ChartStack& stack, const PictureSource& source) {
  plot::write_png(file.string(), plot::draw_chart_stack(stack), stack.title + ". " + stack.caption,
                  png_metadata(source));
  return file;
}

std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study, const StudyTexts& texts,
                                              const PictureSource& source,
                                              std::optional<nn::HeadIndex> only) {
  struct Picture {
    const nn::MapQuantity& quantity;
    std::optional<nn::HeadIndex> only;
    std::filesystem::path file;
  };
  std::vector<Picture> pictures;
  const auto add = [&](const std::string& end, std::optional<nn::HeadIndex> head) {
    for (const nn::MapQuantity& q : nn::map_quantities())
      if (!q.picture.file.empty())
        pictures.push_back({q, head, folder / (std::string(q.picture.file) + end + ".png")});
  };
  add("", {});
  if (only) add("_" + nn::head_name(*only), only);
  const auto scores = study.by_layer(&nn::LayerStudy::scores);
  autograd::parallel_for(std::ssize(pictures), 1, [&](std::int64_t i, std::int64_t) {
    const Picture& p = pictures[std::size_t(i)];
    write_picture(p.file,
                  study_grid(p.quantity, study.by_layer(p.quantity.values), scores, texts, p.only),
                  source, {}, texts.task + ": ");
  });
  std::vector<std::filesystem::path> files;
  for (const Picture& p : pictures) files.push_back(p.file);
  return files;
}

plot::Series head_line(const nn::HeadIndex& head, std::vector<double> x, std::vector<double> y) {
  return {.x = std::move(x),
          .y = std::move(y),
          .dash = int(head.head % plot::kDashPatterns),
          .color = int(head.layer)};
}

void name_heads(plot::ChartStack& stack, const std::vector<nn::HeadReport>& heads) {
  for (const nn::HeadReport& h : heads) {
    if (h.head == 0) stack.colors.push_back(fmt::format("layer {}", h.layer));
    if (h.layer > 0) continue;
    if (h.head < plot::kDashPatterns)
      stack.dashes.push_back(fmt::format("head {}", h.head));
    else
      stack.dashes[std::size_t(h.head % plot::kDashPatterns)] += fmt::format(", {}", h.head);
  }
}

std::filesystem::path draw_by_distance(const std::filesystem::path& folder, const nn::Study& study,
                                       const nn::Batch& batch, const PictureSource& source) {
  plot::ChartStack stack;
  stack.title = fmt::format("Attention of each head by distance; run {}", source.run_name());
  stack.caption = "Means over sequences and over all queries that have a token at this distance.";
  stack.panels = {
      by_distance_chart(study, batch, "weight A", &nn::LayerStudy::pattern),
      by_distance_chart(study, batch, "dL/dS; where it is negative, a higher score would lower L",
                        &nn::LayerStudy::scores_grad)};
  name_heads(stack, study.heads);
  return write_picture(folder / "by_distance.png", stack, source);
}

std::filesystem::path draw_patching(const std::filesystem::path& folder, const nn::Patching& p,
                                    const std::vector<std::string>& tokens,
                                    const PictureSource& source) {
  plot::HeatmapGrid grid;
  for (const nn::PatchMap& map : p.maps)
    if (!map.by_head)
      grid.panels.push_back(
          {map.site, int(map.layers), int(map.columns), {map.effect.begin(), map.effect.end()}});
  for (std::int64_t layer = 0; layer < p.maps.front().layers; ++layer)
    grid.row_labels.push_back(fmt::format("L{}", layer));
  grid.col_labels = tokens;
  grid.row_axis = "layer", grid.col_axis = "token, clean/corrupt";
  grid.title =
      fmt::format("Activation patching: places that carry the clean prompt's answer; run {}",
                  source.run_name());
  grid.caption = fmt::format(
      "L is {:.4g} on the clean prompt and {:.4g} on the corrupt prompt. Each cell is a run on the "
      "corrupt prompt with the clean activation at that place: 1 restores L fully, 0 not at all.",
      p.clean, p.corrupt);
  grid.value_name = "share of L restored";
  grid.scale = plot::ColorScale::kDiverging;
  return write_picture(folder / "patching.png", grid, source);
}

}  // namespace heed
