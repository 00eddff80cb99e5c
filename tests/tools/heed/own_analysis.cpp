// An analysis that is defined in this file alone: the mean distance from a query to the tokens that
// a head reads. A second build of heed, heed_own_analysis, contains it, so that a test can find its
// numbers in every output of a study.
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

// Returns the mean over queries of the sum over keys of A times the distance.
double mean_reach(const nn::Tensor& pattern, std::int64_t head) {
  const std::int64_t length = pattern.size(2);
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      sum += double(i - j) * double(pattern.at({0, head, i, j})) / double(length);
  return sum;
}

Section reach_of_heads(StudyContext& context) {
  Table table({{"head", "head"}, {"reach", "reach", "tokens", "{:.3f}"}});
  plot::HeatmapGrid map{
      .title = "Reach by layer and head", .row_axis = "layer", .col_axis = "head"};
  plot::Panel panel{.title = "reach",
                    .rows = 0,
                    .cols = int(context.model().options.attention.heads),
                    .values = {}};
  plot::Series line{.name = "reach"};
  double largest = 0;
  for (const nn::HeadReport& h : context.reports()) {
    const double reach = mean_reach(context.study().layers[std::size_t(h.layer)].pattern, h.head);
    table.add({nn::head_name(h), reach});
    line.x.push_back(double(line.x.size())), line.y.push_back(reach);
    panel.values.push_back(float(reach));
    panel.rows = int(h.layer) + 1;
    largest = std::max(largest, reach);
  }
  map.panels = {std::move(panel)};
  const std::string sentence = fmt::format("The farthest head reads {:.3f} tokens back.", largest);
  return {.key = "reach",
          .title = "Reach of heads",
          .sentences = {sentence},
          .tables = {std::move(table)},
          .pictures = {{"reach_map", std::move(map)},
                       {"reach", plot::ChartStack{.title = "Reach of heads",
                                                  .panels = {{.x_name = "head",
                                                              .y_name = "tokens",
                                                              .series = {std::move(line)}}}}}},
          .finding = fmt::format("largest {:.3f}", largest)};
}

const Analysis kReach{.key = "reach", .order = 200, .run = reach_of_heads};

}  // namespace
}  // namespace heed
