#include "tools/heed/study/study_pictures.h"

#include <fmt/format.h>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

// The weights, or the gradients of L, the objective, by them or by the scores.
struct StudyView {
  const char *name, *site, *title, *value_name, *caption;
  plot::ColorScale scale;
  bool hatch;  // masked cells have a value that is worth seeing
};
constexpr StudyView kStudyViews[] = {
    {"weights", "hook_pattern", "Where each head looks: the attention weights A",
     "attention weight", kHowToReadWeights, plot::ColorScale::kSequential, false},
    {"dA", "hook_pattern_grad", "dL/dA: what each attention weight would do to L", "dL/dA",
     "Orange: more weight there would raise L; blue: it would lower L.",
     plot::ColorScale::kDiverging, true},
    {"dS", "hook_attn_scores_grad", "dL/dS: what each score before the softmax would do to L",
     "dL/dS",
     "Orange: a higher score there would raise L; blue: it would lower L. Each row, with "
     "its sink if there is one, sums to 0: what one key gains the others lose.",
     plot::ColorScale::kDiverging, false}};

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

plot::HeatmapGrid grid_of(const StudyView& view, const std::vector<nn::NamedTensor>& arrays,
                          const StudyWords& words, std::optional<nn::HeadIndex> only) {
  plot::HeatmapGrid grid = heads_grid(arrays, view.site, only);
  grid.row_labels = grid.col_labels = words.tokens;
  grid.scale = view.scale;
  grid.title =
      fmt::format("{}; run {}, on {}", view.title, words.run, shortened_tokens(words.tokens));
  grid.caption = view.caption;
  if (view.scale == plot::ColorScale::kDiverging)
    grid.caption = fmt::format("L is {}. {}", words.objective, view.caption);
  grid.value_name = view.value_name;
  grid.hatch = view.hatch;
  if (view.hatch) grid.masked = "of a weight that the mask hides";
  return grid;
}

}  // namespace

std::map<std::string, std::string> StudyWords::metadata() const {
  return {{"run", run},
          {"task", task},
          {"objective_words", objective},
          {"labels", nn::Json(tokens).dump()}};
}

StudyWords StudyWords::from(const std::map<std::string, std::string>& metadata) {
  const auto text = [&](const std::string& key) {
    const auto found = metadata.find(key);
    heed::check<autograd::ValueError>(found != metadata.end(), "study", "the metadata have no '",
                                      key, "'");
    return found->second;
  };
  StudyWords words{text("run"), text("task"), text("objective_words"), {}};
  const nn::Json labels = nn::Json::parse(text("labels"));
  for (const nn::Json& label : labels.items()) words.tokens.push_back(label.text());
  return words;
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

plot::HeatmapGrid study_grid(const std::string& view, const std::vector<nn::NamedTensor>& arrays,
                             const StudyWords& words, std::optional<nn::HeadIndex> only) {
  for (const StudyView& known : kStudyViews)
    if (known.name == view) return grid_of(known, arrays, words, only);
  heed::fail<autograd::ValueError>("study", "there is no view '", view, "'");
}

std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const std::vector<nn::NamedTensor>& arrays,
                                              const StudyWords& words, const PictureSource& source,
                                              std::optional<nn::HeadIndex> only) {
  struct Work {
    const StudyView* view;
    std::optional<nn::HeadIndex> only;
    std::filesystem::path file;
  };
  std::vector<Work> all;
  for (const StudyView& view : kStudyViews)
    all.push_back({&view, {}, folder / fmt::format("{}.png", view.name)});
  for (const StudyView& view : kStudyViews)
    if (only)
      all.push_back(
          {&view, only, folder / fmt::format("{}_{}.png", view.name, nn::head_name(*only))});
  autograd::parallel_for(std::int64_t(all.size()), 1, [&](std::int64_t i, std::int64_t) {
    const Work& work = all[std::size_t(i)];
    const plot::HeatmapGrid grid = grid_of(*work.view, arrays, words, work.only);
    plot::write_png(work.file.string(), plot::draw_heatmap(grid),
                    fmt::format("{}: {}. {}", words.task, grid.title, grid.caption),
                    png_facts(source, grid));
  });
  std::vector<std::filesystem::path> files;
  for (const Work& work : all) files.push_back(work.file);
  return files;
}

}  // namespace heed
