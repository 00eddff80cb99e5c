// The chart of over_time.png.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/heed/study/over_time.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// Returns a line for each place of a quantity.
std::vector<plot::Series> lines_of(const nn::OverTime& study, std::string_view quantity) {
  std::vector<plot::Series> lines;
  for (const auto& [place, values] : study.curves(quantity))
    lines.push_back(head_line(place, {study.steps.begin(), study.steps.end()}, values));
  return lines;
}

plot::LineChart loss_panel(const nn::OverTime& study) {
  plot::LineChart panel{.title = "loss (nats per token)",
                        .series = {lines_of(study, "loss")[0], lines_of(study, "counted_loss")[0]},
                        .ends = {0},
                        .height = 150};
  panel.series[0].name = "all targets";
  panel.series[1].name = "counted tokens", panel.series[1].dash = 1;
  const double optimal = study.of_model("optimal_loss")[0];
  if (std::isfinite(optimal)) panel.hlines.push_back({"optimal", optimal});
  return panel;
}

}  // namespace

plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskInfo& info,
                                 const std::string& objective, const std::string& sequences) {
  plot::ChartStack stack;
  stack.title = fmt::format("Heads during training: {}", info.name);
  stack.caption = fmt::format("L is {}. Means over {}.", objective, sequences);
  if (!info.accuracy.empty()) stack.caption += fmt::format(" Counted tokens: {}.", info.accuracy);
  stack.panels.push_back(loss_panel(study));
  stack.panels.push_back({.title = "L", .series = lines_of(study, "value")});
  for (const nn::HeadQuantity& q : nn::head_quantities()) {
    using Panel = nn::HeadQuantity::Panel;
    std::vector<plot::Series> lines = lines_of(study, q.name);
    const bool is_known = std::ranges::any_of(lines, [](const plot::Series& s) {
      return std::ranges::any_of(s.y, [](double y) { return std::isfinite(y); });
    });
    if (q.panel.title.empty() || !is_known) continue;
    plot::LineChart& panel = stack.panels.emplace_back(
        plot::LineChart{.title = std::string(q.panel.title), .series = std::move(lines)});
    panel.log_y = q.panel.axis == Panel::kLog;
    if (q.panel.axis == Panel::kShare) panel.ends = {0, 1};
    if (q.panel.axis == Panel::kFromZero) panel.ends = {0};
  }
  stack.panels.push_back({.title = "gradient flow: |dL/d(residual stream)| after each layer",
                          .x_name = "training step",
                          .series = lines_of(study, "resid_post_grad"),
                          .log_y = true});
  name_heads(stack, study.numbers.back().place);
  if (const auto fall = nn::steepest_fall(study))
    stack.vline = {fmt::format("the loss falls fastest: steps {} to {}", fall->from, fall->to),
                   fall->middle()};
  return stack;
}

}  // namespace heed
