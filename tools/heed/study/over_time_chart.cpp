// over_time.png.
#include <algorithm>
#include <cmath>

#include "tools/heed/report/output.h"
#include "tools/heed/study/over_time.h"

namespace heed {
namespace {

struct HeadPanel {
  const char* name;
  double nn::HeadReport::*value;
  enum Axis { kFromZero, kShare, kLog, kSigned } axis;
};
constexpr HeadPanel kHeadPanels[] = {
    {"entropy of the weights (nats)", &nn::HeadReport::entropy, HeadPanel::kFromZero},
    {"induction score: weight on what followed earlier copies of the token",
     &nn::HeadReport::induction, HeadPanel::kShare},
    {"previous-token score: weight on the token before", &nn::HeadReport::previous_token,
     HeadPanel::kShare},
    {"|dL/dQ|: norm of the gradient that reaches the head's queries", &nn::HeadReport::dq,
     HeadPanel::kLog},
    {"|dL/dK|: its keys", &nn::HeadReport::dk, HeadPanel::kLog},
    {"|dL/dV|: its values", &nn::HeadReport::dv, HeadPanel::kLog},
    {"dL/dg (nats): importance of the head, whose output g scales; negative: it lowers the loss",
     &nn::HeadReport::importance, HeadPanel::kSigned},
};

// y of every moment.
template <class F>
std::vector<double> over_steps(const nn::OverTime& study, const F& f) {
  std::vector<double> y;
  for (const nn::Moment& m : study.moments) y.push_back(f(m));
  return y;
}

std::vector<double> steps_of(const nn::OverTime& study) {
  return over_steps(study, [](const nn::Moment& m) { return double(m.step); });
}

bool has_finite(const plot::LineChart& panel) {
  return std::any_of(panel.series.begin(), panel.series.end(), [](const auto& s) {
    return std::any_of(s.y.begin(), s.y.end(), [](double y) { return std::isfinite(y); });
  });
}

plot::LineChart loss_panel(const nn::OverTime& study) {
  plot::LineChart panel{.title = "loss (nats per token)", .height = 150};
  panel.series.push_back({.name = "all targets",
                          .x = steps_of(study),
                          .y = over_steps(study, [](const auto& m) { return m.loss; })});
  panel.series.push_back({.name = "counted tokens",
                          .x = steps_of(study),
                          .y = over_steps(study, [](const auto& m) { return m.counted_loss; }),
                          .dash = 1});
  panel.ends = {0};
  if (std::isfinite(study.optimal)) panel.hlines.push_back({"best possible", study.optimal});
  return panel;
}

plot::LineChart head_panel(const nn::OverTime& study, const HeadPanel& what) {
  plot::LineChart panel{.title = what.name, .log_y = what.axis == HeadPanel::kLog};
  if (what.axis == HeadPanel::kShare) panel.ends = {0, 1};
  if (what.axis == HeadPanel::kFromZero) panel.ends = {0};
  const auto& heads = study.moments[0].heads;
  for (std::size_t i = 0; i < heads.size(); ++i)
    panel.series.push_back(
        {.x = steps_of(study),
         .y = over_steps(study, [&](const nn::Moment& m) { return m.heads[i].*what.value; }),
         .dash = int(heads[i].head % plot::kDashPatterns),
         .color = int(heads[i].layer)});
  return panel;
}

plot::LineChart flow_panel(const nn::OverTime& study) {
  plot::LineChart panel{.title = "gradient flow: |dL/d(residual stream)| after each layer",
                        .log_y = true};
  for (std::size_t i = 0; i < study.moments[0].flow.size(); ++i)
    panel.series.push_back(
        {.x = steps_of(study),
         .y = over_steps(study, [&](const nn::Moment& m) { return m.flow[i].resid_post_grad; }),
         .color = int(study.moments[0].flow[i].layer)});
  return panel;
}

}  // namespace

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

plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskFacts& facts,
                                 const std::string& run) {
  plot::ChartStack stack;
  stack.title = fmt::format("{}, {}: what training does to each head", facts.name, run);
  stack.caption = fmt::format(
      "The loss and its gradients on the same {} sequences at every checkpoint.", study.sequences);
  if (!facts.accuracy.empty()) stack.caption += fmt::format(" Counted tokens: {}.", facts.accuracy);
  stack.panels.push_back(loss_panel(study));
  for (const HeadPanel& what : kHeadPanels)
    if (plot::LineChart panel = head_panel(study, what); has_finite(panel))
      stack.panels.push_back(std::move(panel));
  stack.panels.push_back(flow_panel(study));
  stack.panels.back().x_name = "training step";
  name_heads(stack, study.moments[0].heads);
  if (const auto fall = nn::steepest_fall(study))
    stack.vline = {fmt::format("the loss falls fastest: steps {} to {}", fall->from, fall->to),
                   fall->middle()};
  return stack;
}

}  // namespace heed
