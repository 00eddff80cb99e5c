#include "tools/heed/study/batch_study.h"

#include <fmt/format.h>

#include <numeric>

#include "autograd/ops/ops.h"
#include "nn/train/evaluate.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/over_time.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

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

StudyTable batch_table(const nn::Study& study, const std::string& objective) {
  constexpr const char* kShown[] = {"relative_entropy",
                                    "previous_token",
                                    "induction",
                                    "saturation",
                                    "importance",
                                    "absolute_importance",
                                    "dq",
                                    "dk",
                                    "dv"};
  StudyTable t{"Heads over sequences",
               fmt::format("means over the first {} of the evaluation set, L is {}; importance is "
                           "dL/dg, absolute_importance the mean of |dL/dg|",
                           study.embed.size(0), objective),
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

}  // namespace heed
