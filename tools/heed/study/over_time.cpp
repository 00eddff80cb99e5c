#include "tools/heed/study/over_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/context.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// Returns the sequences that are studied: the sequence shown, or kSequences of the task.
StudySample sample_over_time(const StudyOptions& o, const Subject& s, Progress& progress) {
  constexpr Index kSequences = 32;
  if (o.has_prompt || o.has_sample) {
    StudyContext context(o, s, progress);
    const StudySample& shown = context.shown();
    if (shown.donors.rows.empty()) usage_error("--over-time: {}", shown.without_donors);
    return shown;
  }
  StudyOptions few = o;
  if (o.samples == 0)
    few.samples = std::clamp(s.run->task->evaluation_size(), lab::kLeastSequences, kSequences);
  return sample_of(few, s);  // throws unless each sequence has donors
}

nn::Json over_time_json(const lab::OverTime& study) {
  nn::Json components = nn::Json::array(), fall_json;
  for (const lab::ComponentCurves& c : study.components) {
    nn::Json entry =
        nn::Json::object({{"name", c.name}, {"pattern", c.pattern}, {"counts", c.counts}});
    for (const lab::CurveQuantity& q : lab::curve_quantities()) entry.append(q.name, c.*q.values);
    components.push_back(std::move(entry));
  }
  if (const auto fall = lab::steepest_fall(study))
    fall_json = std::vector<Index>{fall->from, fall->to};
  return nn::Json::object({{"optimal_loss", study.optimal_loss},
                           {"steps", study.steps},
                           {"values", study.value},
                           {"accuracy", study.accuracy},
                           {"loss", study.loss},
                           {"counted_loss", study.counted_loss},
                           {"layers", study.resid},
                           {"components", components},
                           {"steepest_fall", fall_json}});
}

Section time_section(const lab::OverTime& study, const Subject& s, const StudySample& sample) {
  Section section{.key = "time",
                  .title = fmt::format("{}: {} checkpoints on {}", s.folder(), study.steps.size(),
                                       sample.sequences)};
  section.sentences = {
      fmt::format("L is {}; it is {:.3g} at the first checkpoint and {:.3g} at the last.",
                  sample.objective, study.value.front(), study.value.back())};
  if (std::string forms = what_forms(study); !forms.empty())
    section.sentences.push_back(std::move(forms));
  Table t{.columns = {{"step"}, {"L", "", "{:.3g}"}, {"accuracy", "", "{:.1f} %"}},
          .title = "effects"};
  std::vector<const lab::ComponentCurves*> shown;
  for (const lab::ComponentCurves& c : study.components)
    if (c.counts && shown.size() < 6) shown.push_back(&c);
  for (const lab::ComponentCurves* c : shown) t.columns.push_back({c->name, "", "{:+.2g}"});
  for (std::size_t i = 0; i < study.steps.size(); ++i) {
    std::vector<Value> row{study.steps[i], study.value[i], study.accuracy[i]};
    for (const lab::ComponentCurves* c : shown) row.push_back(c->effect[i]);
    t.rows.push_back(std::move(row));
  }
  section.tables = {std::move(t)};
  section.pictures.push_back({"over_time",
                              over_time_chart(study, s.info(), sample.objective, sample.sequences),
                              "All checkpoints are studied on the same sequences."});
  return section;
}

// Returns the line of a head in a chart. The layer determines the color of the line, and the head
// modulo plot::kDashPatterns determines its dash pattern. For a layer (head -1), the line has the
// pattern of head 0. For the model (layer and head -1), it also has no color.
plot::Series head_line(const nn::HeadIndex& head, std::vector<double> x, std::vector<double> y) {
  return {.x = std::move(x),
          .y = std::move(y),
          .dash = int(std::max<Index>(head.head, 0) % plot::kDashPatterns),
          .color = int(head.layer)};
}

// Adds the legend for the colors and dash patterns of head_line() of all heads up to `last`.
void name_heads(plot::ChartStack& stack, const nn::HeadIndex& last) {
  for (Index l = 0; l <= last.layer; ++l) stack.colors.push_back(fmt::format("layer {}", l));
  for (Index h = 0; h <= last.head; ++h)
    if (h < plot::kDashPatterns)
      stack.dashes.push_back(fmt::format("head {}", h));
    else
      stack.dashes[std::size_t(h % plot::kDashPatterns)] += fmt::format(", {}", h);
}

}  // namespace

std::string curve_names() {
  std::string names;
  for (const lab::CurveQuantity& q : lab::curve_quantities()) names += std::string(" ") + q.name;
  return names;
}

std::string what_forms(const lab::OverTime& study) {
  const auto fall = lab::steepest_fall(study);
  if (!fall) return "";
  const auto index = std::size_t(std::ranges::find(study.steps, fall->to) - study.steps.begin());
  const lab::ComponentCurves* most = nullptr;
  const auto growth = [&](const lab::ComponentCurves& c) {
    return std::abs(c.effect[index]) - std::abs(c.effect[index - 1]);
  };
  for (const lab::ComponentCurves& c : study.components)
    if (c.counts && (!most || growth(c) > growth(*most))) most = &c;
  std::string text =
      fmt::format("The loss falls fastest between steps {} and {}", fall->from, fall->to);
  if (most && growth(*most) > 0)
    text += fmt::format("; there the effect of {} goes from {:+.2g} to {:+.2g}", most->name,
                        most->effect[index - 1], most->effect[index]);
  return text + ".";
}

std::string last_checkpoint(const std::string& run) {
  const std::filesystem::path folder = find_run(run);
  const auto checkpoints = lab::RunFolder(folder).checkpoints();
  heed::check<autograd::IoError>(
      !checkpoints.empty(), "over-time", folder.string(),
      " has no checkpoints; train with --save-every, for example heed train --save-every 10");
  return std::filesystem::relative(checkpoints.back().file, folder).string();
}

plot::ChartStack over_time_chart(const lab::OverTime& study, const lab::TaskInfo& info,
                                 const std::string& objective, const std::string& sequences) {
  const std::vector<double> steps(study.steps.begin(), study.steps.end());
  plot::ChartStack stack{.title = fmt::format("Heads and MLPs during training: {}", info.name),
                         .caption = fmt::format("L is {}. Means over {}.", objective, sequences)};
  if (!info.accuracy.empty()) stack.caption += fmt::format(" Counted tokens: {}.", info.accuracy);
  plot::LineChart loss{
      .title = "loss (nats per token)",
      .series = {{.name = "all targets", .x = steps, .y = study.loss},
                 {.name = "counted tokens", .x = steps, .y = study.counted_loss, .dash = 1}},
      .ends = {0},
      .height = 150};
  if (std::isfinite(study.optimal_loss)) loss.hlines.push_back({"optimal", study.optimal_loss});
  stack.panels.push_back(std::move(loss));
  stack.panels.push_back({.title = "L", .series = {{.x = steps, .y = study.value}}});
  nn::HeadIndex last{0, 0};
  for (const lab::CurveQuantity& q : lab::curve_quantities()) {
    plot::LineChart panel{.title = q.title};
    const bool is_share =
        q.values == &lab::ComponentCurves::score || q.values == &lab::ComponentCurves::accuracy;
    if (is_share) panel.ends = {0, 1};
    for (const lab::ComponentCurves& c : study.components) {
      const std::vector<double>& y = c.*q.values;
      if (!c.counts || std::ranges::none_of(y, [](double v) { return std::isfinite(v); })) continue;
      plot::Series line = c.head ? head_line(*c.head, steps, y) : head_line({-1, -1}, steps, y);
      if (!c.head) line.name = c.name;
      panel.series.push_back(std::move(line));
    }
    if (!panel.series.empty()) stack.panels.push_back(std::move(panel));
  }
  plot::LineChart flow{.title = "|dL/d(residual stream)| before each layer, and after the last",
                       .x_name = "training step",
                       .log_y = true};
  for (std::size_t l = 0; l < study.resid.size(); ++l)
    flow.series.push_back(head_line({Index(l), -1}, steps, study.resid[l]));
  stack.panels.push_back(std::move(flow));
  for (const lab::ComponentCurves& c : study.components)
    if (c.head) last = {c.head->layer, std::max(last.head, c.head->head)};
  name_heads(stack, last);
  stack.colors.push_back("after the last layer");
  if (const auto fall = lab::steepest_fall(study))
    stack.vline = {fmt::format("the loss falls fastest: steps {} to {}", fall->from, fall->to),
                   fall->middle()};
  return stack;
}

Out study_over_time(const Subject& subject, const StudyOptions& options) {
  const std::filesystem::path folder = subject.source.run;
  const std::vector<lab::CheckpointFile> checkpoints = lab::RunFolder(folder).checkpoints();
  Progress progress(false);
  const StudySample sample = sample_over_time(options, subject, progress);
  ResultFolder out(options.out, folder / "over-time");
  nn::Transformer model = nn::clone(subject.model());
  lab::OverTime study =
      lab::over_time(model, checkpoints, {sample.run.batch, sample.donors, 0}, sample.run.objective,
                     [&](Index done, Index total) {
                       progress.at_work(fmt::format("Studying checkpoints: {} of {}", done, total));
                     });
  study.optimal_loss = subject.info().optimal;
  const std::vector<Section> sections{time_section(study, subject, sample)};
  progress.at_work("Writing the page");
  const Files files = write_page(
      out, subject.source,
      {fmt::format("{}: {} over time", subject.source.run_name(), sample.objective), {}, sections});
  out.complete();
  progress.clear();
  Out result;
  result.set("format", kStudyFormat);
  result.set("run", subject.folder());
  result.set("sequences", sample.run.values.size());
  result.set_all(over_time_json(study));
  add_section(result, sections[0]);
  result.files(files);
  return result;
}

}  // namespace heed
