// The section `gradient`: gradients by layer and head, and along the path from the donors.
#include <fmt/format.h>

#include "tools/heed/study/analysis.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// Returns gradient.png: the prediction of each component that counts at each point of the path.
Picture path_picture(const lab::ComponentStudy& s) {
  plot::LineChart chart{.x_name = "share of the model's own input",
                        .y_name = "prediction with the gradient at this point"};
  for (std::size_t i = 0; i < s.rows.size(); ++i) {
    if (!s.judgement.counts[i]) continue;
    plot::Series& line = chart.series.emplace_back(plot::Series{.name = s.rows[i].place});
    for (int k = 0; k < lab::kPathPoints; ++k)
      line.x.push_back((k + 0.5) / lab::kPathPoints),
          line.y.push_back(s.attribution.points[i][std::size_t(k)]);
    line.x.push_back(1), line.y.push_back(s.rows[i].gradient);
  }
  constexpr std::size_t kMostLines = 8;
  chart.series.resize(std::min(chart.series.size(), kMostLines));
  return {
      "gradient",
      plot::ChartStack{.title = "Gradient along the path from the donors (0) to the model (1)",
                       .caption = "The path gradient is the mean over the first five points. The "
                                  "gradient at the model is the last point.",
                       .panels = {std::move(chart)}}};
}

Section gradient_section(StudyContext& c) {
  const lab::ComponentStudy& s = *c.components();
  const lab::GradientFlow& flow = s.attribution.flow;
  constexpr const char* kNumber = "{:+.3g}";
  Section section{
      .key = "gradient",
      .title = "Gradients at the model, and along the path from the donors",
      .sentences = {
          "v.dL/dv, q.dL/dq: change of L, to first order, by scaling the values or the scores of "
          "the "
          "head. A(1-A): how much of a gradient passes through the softmax where the head matters; "
          "0 "
          "if each query attends to one key. point 1 to 5: the prediction of the effect with the "
          "gradient at 0.1, 0.3, 0.5, 0.7 and 0.9 of the way from the donor to the model."}};
  if (s.path_donors < c.task_sample()->donors.rows.size())
    section.sentences.emplace_back("The path gradient is that of one donor for each sequence.");
  Table layers{.columns = {{"stream"}, {"|dL/dresid|", "", "{:.3g}"}}, .title = "Residual stream"};
  for (std::size_t l = 0; l < flow.resid.size(); ++l)
    layers.rows.push_back(
        {l + 1 == flow.resid.size() ? "after the last layer" : fmt::format("before layer {}", l),
         flow.resid[l]});
  Table t{.columns = {{"component"},
                      {"effect", "", kNumber},
                      {"v.dL/dv", "", kNumber},
                      {"q.dL/dq", "", kNumber},
                      {"A(1-A)", "", "{:.3f}"}}};
  for (int k = 1; k <= lab::kPathPoints; ++k)
    t.columns.push_back({fmt::format("point {}", k), "", "{:+.2g}", k % 4 == 1});
  t.columns.push_back({"gradient", "", "{:+.2g}"});
  for (std::size_t i = 0; i < s.rows.size(); ++i) {
    std::vector<Value> row{s.rows[i].place, s.rows[i].effect.mean};
    for (const auto* numbers : {&flow.values, &flow.scores, &flow.passes})
      row.push_back(i < numbers->size() ? Value((*numbers)[i]) : Value());
    for (const double p : s.attribution.points[i]) row.push_back(p);
    row.push_back(s.rows[i].gradient);
    t.rows.push_back(std::move(row));
  }
  section.tables = {std::move(t), std::move(layers)};
  if (s.judgement.counted > 0) section.pictures = {path_picture(s)};
  return section;
}

}  // namespace

const Analysis kGradient{.key = "gradient",
                         .by_default = [](StudyContext& c) { return c.components() != nullptr; },
                         .run = gradient_section};

}  // namespace heed
