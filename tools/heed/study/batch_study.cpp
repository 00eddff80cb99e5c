#include "tools/heed/study/batch_study.h"

#include <fmt/format.h>

#include "autograd/ops/ops.h"
#include "nn/study/head_index.h"
#include "nn/train/evaluate.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct DistanceView {
  const char *file, *site, *title, *value_name;
  plot::ColorScale scale;
};
constexpr DistanceView kDistanceViews[] = {
    {"by_distance.png", "hook_pattern", "How far back each head looks: the mean weight A",
     "mean weight", plot::ColorScale::kSequential},
    {"dS_by_distance.png", "hook_attn_scores_grad",
     "How far back L would have each head look: the mean dL/dS", "mean dL/dS",
     plot::ColorScale::kDiverging}};

}  // namespace

nn::Batch evaluation_batch(const nn::LoadedRun& run, std::int64_t samples) {
  const std::int64_t most = 8 * nn::evaluation_chunk(run.model, run.task->facts());
  if (samples > most)
    usage_error("--samples: this model and context keep memory for {} at a time, got {}", most,
                samples);
  return run.task->evaluation(0, samples);
}

nn::Study batch_study(const nn::LoadedRun& run, const nn::Batch& batch,
                      const nn::Objective& objective) {
  if (run.task->facts().stop)
    usage_error(
        "--samples: sequences of {} end at different places, and a mean would be of padding; "
        "study one by --sample, or add --ablate",
        run.task->facts().name);
  return nn::study(run.model, batch, objective);
}

Table batch_table(const nn::Study& study) {
  constexpr const char* kShown[] = {"relative_entropy",
                                    "previous_token",
                                    "induction",
                                    "saturation",
                                    "importance",
                                    "absolute_importance",
                                    "dq",
                                    "dk",
                                    "dv"};
  Table t{"Heads over sequences",
          "means over the sequences; importance is dL/dg, absolute_importance the mean of |dL/dg|",
          {{"head"}},
          {}};
  for (const nn::HeadReport& h : study.heads) t.rows.push_back({nn::head_name({h.layer, h.head})});
  for (const char* name : kShown)
    for (const nn::HeadQuantity& q : nn::head_quantities())
      if (q.name == name) {
        t.columns.push_back({std::string(q.name), std::string(q.unit)});
        for (std::size_t i = 0; i < study.heads.size(); ++i)
          t.rows[i].push_back(study.heads[i].*q.value);
      }
  return t;
}

std::vector<std::filesystem::path> draw_by_distance(const std::filesystem::path& folder,
                                                    const nn::Study& study,
                                                    const PictureSource& source) {
  std::vector<std::filesystem::path> files;
  for (const DistanceView& view : kDistanceViews) {
    plot::HeatmapGrid grid;
    std::vector<float> values;
    for (const nn::LayerFlow& f : study.flow) {
      const nn::Tensor means =
          nn::by_distance(study.array(fmt::format("blocks.{}.attn.{}", f.layer, view.site)));
      for (const double x : means.to_vector<double>()) values.push_back(float(x));
    }
    for (const nn::HeadReport& h : study.heads)
      grid.row_labels.push_back(nn::head_name({h.layer, h.head}));
    const auto rows = int(study.heads.size()), cols = int(values.size()) / rows;
    for (int d = 0; d < cols; ++d) grid.col_labels.push_back(std::to_string(d));
    grid.panels = {{"", rows, cols, values}};
    grid.row_axis = "head", grid.col_axis = "tokens from the key to the query";
    grid.title = fmt::format("{}; run {}", view.title, source.run_name());
    grid.caption = "Means over sequences and queries; 0 is the query itself.";
    grid.value_name = view.value_name;
    grid.scale = view.scale;
    files.push_back(folder / view.file);
    plot::write_png(files.back().string(), plot::draw_heatmap(grid),
                    grid.title + ". " + grid.caption, png_facts(source, grid));
  }
  return files;
}

}  // namespace heed
