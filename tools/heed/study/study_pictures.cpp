#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include <numeric>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "tools/heed/report/report.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

// "3", "3 and 5".
std::string places_text(const std::vector<std::int64_t>& positions) {
  std::vector<std::string> words;
  for (const std::int64_t p : positions) words.push_back(std::to_string(p));
  return heed::join(words);
}

// What L is, in the words of someone who has not seen --of.
std::string objective_words(const nn::Objective& o, const nn::Vocabulary& vocabulary) {
  const std::string there =
      (o.positions.size() == 1 ? "at position " : "at positions ") + places_text(o.positions);
  if (o.kind == nn::Objective::kLoss)
    return o.positions.empty() ? "the mean loss over the sequence" : "the mean loss " + there;
  const auto token = [&](std::int64_t id) { return plot::token_text(vocabulary.label(id)); };
  return o.kind == nn::Objective::kLogit
             ? fmt::format("the logit of {} {}", token(o.a), there)
             : fmt::format("the logit of {} minus that of {}, {}", token(o.a), token(o.b), there);
}

// A line for each head: the mean of its map by distance.
plot::LineChart by_distance_chart(const nn::Study& study, const char* title,
                                  nn::Tensor nn::LayerStudy::*maps) {
  plot::LineChart chart{
      .title = title, .x_name = "tokens from the key to the query", .height = 200};
  for (std::size_t l = 0; l < study.layers.size(); ++l) {
    const nn::Tensor means = nn::by_distance(study.layers[l].*maps);
    std::vector<double> distances(std::size_t(means.size(1)));
    std::iota(distances.begin(), distances.end(), 0);
    for (std::int64_t h = 0; h < means.size(0); ++h)
      chart.series.push_back({.x = distances,
                              .y = select(means, 0, h).to_vector<double>(),
                              .dash = int(h % plot::kDashPatterns),
                              .color = int(l)});
  }
  return chart;
}

}  // namespace

std::string objective_text(const nn::Objective& o, const nn::TaskFacts& facts) {
  const std::string places = places_text(o.positions);
  if (o.kind == nn::Objective::kLoss)
    return o.positions.empty() ? "the loss" : "the loss at " + places;
  const std::string a = facts.vocabulary.label(o.a), b = facts.vocabulary.label(o.b);
  const std::string what = o.kind == nn::Objective::kLogit ? "logit:" + a : "diff:" + a + "-" + b;
  return fmt::format("{} at {}", what, places);
}

std::map<std::string, std::string> StudyWords::metadata() const {
  return {{"run", run},
          {"task", task},
          {"objective_words", objective},
          {"labels", nn::Json(tokens).dump()}};
}

StudyWords study_words(const PictureSource& source, const nn::Objective& objective,
                       const std::vector<std::string>& tokens, const nn::TaskFacts& facts) {
  return {plot::visible_text(source.run_name()), facts.name,
          objective_words(objective, facts.vocabulary), tokens};
}

plot::HeatmapGrid study_grid(const nn::MapQuantity& quantity, const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores, const StudyWords& words,
                             std::optional<nn::HeadIndex> only) {
  const nn::MapQuantity::Picture& picture = quantity.picture;
  plot::HeatmapGrid grid = heads_grid(maps, scores, only);
  grid.row_labels = grid.col_labels = words.tokens;
  grid.scale = quantity.is_signed ? plot::ColorScale::kDiverging : plot::ColorScale::kSequential;
  grid.title =
      fmt::format("{}; run {}, on {}", picture.heading, words.run, shortened_tokens(words.tokens));
  grid.caption = picture.caption;
  if (quantity.is_signed)
    grid.caption = fmt::format("L is {}. {}", words.objective, picture.caption);
  grid.value_name = picture.value_name;
  grid.hatch = picture.hatched;
  if (picture.hatched) grid.masked = "of a weight that the mask hides";
  return grid;
}

std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study, const StudyWords& words,
                                              const PictureSource& source,
                                              std::optional<nn::HeadIndex> only) {
  struct Work {
    const nn::MapQuantity* quantity;
    std::optional<nn::HeadIndex> only;
    std::filesystem::path file;
  };
  std::vector<Work> all;
  const auto add = [&](std::optional<nn::HeadIndex> head) {
    const std::string end = head ? "_" + nn::head_name(*head) : "";
    for (const nn::MapQuantity& q : nn::map_quantities())
      if (!q.picture.file.empty())
        all.push_back({&q, head, folder / fmt::format("{}{}.png", q.picture.file, end)});
  };
  add({});
  if (only) add(only);
  const auto scores = study.by_layer(&nn::LayerStudy::scores);
  autograd::parallel_for(std::int64_t(all.size()), 1, [&](std::int64_t i, std::int64_t) {
    const Work& work = all[std::size_t(i)];
    const plot::HeatmapGrid grid =
        study_grid(*work.quantity, study.by_layer(work.quantity->values), scores, words, work.only);
    plot::write_png(work.file.string(), plot::draw_heatmap(grid),
                    fmt::format("{}: {}. {}", words.task, grid.title, grid.caption),
                    png_facts(source, grid));
  });
  std::vector<std::filesystem::path> files;
  for (const Work& work : all) files.push_back(work.file);
  return files;
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
                                       const PictureSource& source) {
  plot::ChartStack stack;
  stack.title = fmt::format("How far back each head looks; run {}", source.run_name());
  stack.caption = "Means over sequences and over queries that have a token so far before them.";
  stack.panels = {by_distance_chart(study, "weight A", &nn::LayerStudy::pattern),
                  by_distance_chart(study, "dL/dS: negative, a higher score there would lower L",
                                    &nn::LayerStudy::scores_grad)};
  name_heads(stack, study.heads);
  const std::filesystem::path file = folder / "by_distance.png";
  plot::write_png(file.string(), plot::draw_chart_stack(stack), stack.title + ". " + stack.caption,
                  png_facts(source));
  return file;
}

void draw_patching(const std::filesystem::path& file, const nn::Patching& p,
                   const std::vector<std::string>& tokens, const PictureSource& source) {
  plot::HeatmapGrid grid;
  for (const nn::PatchMap& map : p.maps)
    if (!map.by_head)
      grid.panels.push_back(
          {map.site, int(map.layers), int(map.columns), {map.effect.begin(), map.effect.end()}});
  for (std::int64_t layer = 0; layer < p.maps.front().layers; ++layer)
    grid.row_labels.push_back(fmt::format("L{}", layer));
  grid.col_labels = tokens;
  grid.row_axis = "layer", grid.col_axis = "token, clean/corrupt";
  grid.title = fmt::format(
      "Activation patching: where the clean prompt's answer comes from; run {}", source.run_name());
  grid.caption = fmt::format(
      "L is {:.4g} on the clean prompt and {:.4g} on the corrupt one. Each cell: the corrupt "
      "prompt run with the clean activation at that place; 1 brings all of L back, 0 nothing.",
      p.clean, p.corrupt);
  grid.value_name = "share of L";
  grid.scale = plot::ColorScale::kDiverging;
  plot::write_png(file.string(), plot::draw_heatmap(grid), grid.title + ". " + grid.caption,
                  png_facts(source, grid));
}

}  // namespace heed
