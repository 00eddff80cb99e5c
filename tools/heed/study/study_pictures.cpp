#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

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

}  // namespace

std::map<std::string, std::string> StudyWords::metadata() const {
  return {{"run", run},
          {"task", task},
          {"objective_words", objective},
          {"labels", nn::Json(tokens).dump()}};
}

std::string places_text(const std::vector<std::int64_t>& positions) {
  std::vector<std::string> words;
  for (const std::int64_t p : positions) words.push_back(std::to_string(p));
  return heed::join(words);
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

}  // namespace heed
