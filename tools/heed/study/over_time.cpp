#include "tools/heed/study/over_time.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "nn/io/safetensors.h"
#include "nn/layers/sites.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_files.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

constexpr double kHalfScore = 0.5;  // of a score: a head that does this, more than not

// ---- JSON

constexpr Column kFlowColumns[] = {{"layer"}, {"resid_pre_grad"}, {"resid_post_grad"}};

nn::Json series_json(const nn::OverTime& study, const auto& value) {
  nn::Json list = nn::Json::array();
  for (const nn::Moment& m : study.moments) list.push_back(value(m));
  return list;
}

nn::Json over_time_json(const nn::OverTime& study, const std::string& run) {
  nn::Json heads = nn::Json::array(), layers = nn::Json::array();
  for (std::size_t i = 0; i < study.moments[0].heads.size(); ++i) {
    const nn::HeadReport& first = study.moments[0].heads[i];
    nn::Json head = nn::Json::object({{"layer", first.layer}, {"head", first.head}});
    for (const nn::HeadQuantity& q : nn::head_quantities())
      head.append(std::string(q.name),
                  series_json(study, [&](const nn::Moment& m) { return m.heads[i].*q.value; }));
    heads.push_back(std::move(head));
  }
  for (std::size_t i = 0; i < study.moments[0].flow.size(); ++i)
    layers.push_back(nn::Json::object(
        {{"layer", study.moments[0].flow[i].layer},
         {"resid_pre_grad",
          series_json(study, [&](const nn::Moment& m) { return m.flow[i].resid_pre_grad; })},
         {"resid_post_grad",
          series_json(study, [&](const nn::Moment& m) { return m.flow[i].resid_post_grad; })}}));
  nn::Json json = nn::Json::object(
      {{"run", run},
       {"sequences", study.sequences},
       {"optimal_loss", study.optimal},
       {"steps", series_json(study, [](const nn::Moment& m) { return m.step; })},
       {"loss", series_json(study, [](const nn::Moment& m) { return m.loss; })},
       {"counted_loss", series_json(study, [](const nn::Moment& m) { return m.counted_loss; })},
       {"heads", heads},
       {"layers", layers}});
  const auto fall = nn::steepest_fall(study);
  json.append("steepest_fall",
              fall ? nn::Json(std::vector<std::int64_t>{fall->from, fall->to}) : nn::Json());
  return json;
}

// ---- text

// The heads whose score is largest at any time, at most four, by layer and head.
std::vector<std::size_t> strongest_heads(const nn::OverTime& study, double nn::HeadReport::*score) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<double, std::size_t>> by_score;
  for (std::size_t i = 0; i < study.moments[0].heads.size(); ++i) {
    double best = -1;
    for (const nn::Moment& m : study.moments)
      if (const double x = m.heads[i].*score; x > best) best = x;
    if (best >= 0) by_score.emplace_back(-best, i);
  }
  std::sort(by_score.begin(), by_score.end());
  std::vector<std::size_t> heads;
  for (std::size_t i = 0; i < std::min(kMost, by_score.size()); ++i)
    heads.push_back(by_score[i].second);
  std::sort(heads.begin(), heads.end());
  return heads;
}

// The losses, and this score of the heads that have most of it.
std::string score_text(const nn::OverTime& study, const char* title,
                       double nn::HeadReport::*score) {
  const std::vector<std::size_t> heads = strongest_heads(study, score);
  if (heads.empty()) return "";
  std::vector<std::string> names;
  for (const std::size_t i : heads)
    names.push_back(
        nn::head_name({study.moments[0].heads[i].layer, study.moments[0].heads[i].head}));
  std::vector<Column> columns{
      {"", "step"}, {"", "loss", "", "{:.3f}"}, {"", "counted", "", "{:.3f}"}};
  for (const std::string& name : names) columns.push_back({"", name, "", "{:.2f}"});
  Table table(columns);
  table.title = title;
  for (const nn::Moment& m : study.moments) {
    std::vector<Value> row{m.step, m.loss, m.counted_loss};
    for (const std::size_t i : heads) row.push_back(m.heads[i].*score);
    table.add(std::move(row));
  }
  return to_text(table);
}

// When a layer's induction score comes to one half, of the first layer where it does.
std::optional<std::pair<std::int64_t, std::int64_t>> induction_forms(const nn::OverTime& study) {
  std::int64_t layers = 0;
  for (const nn::HeadReport& h : study.moments[0].heads) layers = std::max(layers, h.layer + 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto step = nn::first_reached(study, &nn::HeadReport::induction, layer, kHalfScore);
    if (step && *step > study.moments[0].step) return std::pair{layer, *step};
  }
  return {};
}

void add_text(Report& report, const nn::OverTime& study, const std::string& run) {
  report.line("{}: {} checkpoints on {} sequences, best possible loss {}\n\n", run,
              study.moments.size(), study.sequences,
              std::isfinite(study.optimal) ? fmt::format("{:.4f}", study.optimal) : "unknown");
  int shown = 0;
  for (const auto& [title, score] : {std::pair{"previous token", &nn::HeadReport::previous_token},
                                     std::pair{"induction", &nn::HeadReport::induction},
                                     std::pair{"entropy, nats", &nn::HeadReport::entropy}})
    if (const std::string text = score_text(study, title, score); !text.empty() && shown++ < 2)
      report.block(text + "\n");
  std::string events;
  if (const auto fall = nn::steepest_fall(study))
    events += fmt::format("the loss falls fastest between steps {} and {}\n", fall->from, fall->to);
  if (const auto forms = induction_forms(study))
    events += fmt::format("layer {}: a head's induction score is {} or more from step {} on\n",
                          forms->first, kHalfScore, forms->second);
  if (!events.empty()) report.block(events + "\n");
}

// ---- picture and page

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

plot::LineChart head_panel(const nn::OverTime& study, const nn::HeadQuantity& quantity) {
  using Panel = nn::HeadQuantity::Panel;
  plot::LineChart panel{.title = std::string(quantity.panel.title),
                        .log_y = quantity.panel.axis == Panel::kLog};
  if (quantity.panel.axis == Panel::kShare) panel.ends = {0, 1};
  if (quantity.panel.axis == Panel::kFromZero) panel.ends = {0};
  const auto& heads = study.moments[0].heads;
  for (std::size_t i = 0; i < heads.size(); ++i)
    panel.series.push_back(
        {.x = steps_of(study),
         .y = over_steps(study, [&](const nn::Moment& m) { return m.heads[i].*quantity.value; }),
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

// The first, the last and, of the others, those nearest to the steepest fall, by step.
std::vector<nn::CheckpointFile> telling_moments(const std::vector<nn::CheckpointFile>& all,
                                                const nn::OverTime& study) {
  constexpr std::size_t kMost = 8;
  std::vector<nn::CheckpointFile> chosen = all;
  const auto fall = nn::steepest_fall(study);
  const double middle = fall ? fall->middle() : 0;  // without a fall the earliest
  const std::int64_t first = all.front().step, last = all.back().step;
  const auto rank = [&](const nn::CheckpointFile& c) {
    return c.step == first || c.step == last ? -1.0 : std::abs(double(c.step) - middle);
  };
  std::sort(chosen.begin(), chosen.end(), [&](const auto& a, const auto& b) {
    return std::pair(rank(a), a.step) < std::pair(rank(b), b.step);
  });
  if (chosen.size() > kMost) chosen.resize(kMost);
  std::sort(chosen.begin(), chosen.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return chosen;
}

// Up to eight moments. The model keeps the weights of the last one.
PagePane pane_over_time(const PictureSource& source, const StudyWords& words,
                        nn::Transformer& model, const nn::Batch& one,
                        const std::vector<nn::CheckpointFile>& checkpoints,
                        const nn::OverTime& study) {
  PagePane pane = make_pane(source, words, model);
  pane.checkpoints = std::int64_t(checkpoints.size());
  const std::vector<nn::CheckpointFile> moments = telling_moments(checkpoints, study);
  for (const nn::CheckpointFile& c : moments) {
    nn::load_parameters(parameters(model), nn::load_safetensors(c.file.string()));
    const nn::Study now = nn::study(model, one, {});
    pane.add_moment(c.step, now, nn::routes(model, now), c.step == moments.back().step);
  }
  return pane;
}

}  // namespace

Columns over_time_keys() {
  static const std::vector<Column> heads = [] {
    std::vector<Column> keys{{"layer"}, {"head"}};
    for (const nn::HeadQuantity& q : nn::head_quantities()) keys.push_back({q.name});
    return keys;
  }();
  static const Column all[] = {{"run"},
                               {"sequences"},
                               {"optimal_loss"},
                               {"steps"},
                               {"loss"},
                               {"counted_loss"},
                               fields("heads", {heads.data(), heads.size()}),
                               fields("layers", kFlowColumns),
                               {"steepest_fall"},
                               {"files"}};
  return all;
}

Table over_time_table(const nn::OverTime& study) {
  static constexpr Column kColumns[] = {{"step"}, {"layer"}, {"head"}, {"quantity"}, {"value"}};
  Table table(kColumns);
  for (const nn::Moment& m : study.moments) {
    table.add({m.step, {}, {}, "loss", m.loss});
    table.add({m.step, {}, {}, "counted_loss", m.counted_loss});
    table.add({m.step, {}, {}, "optimal_loss", study.optimal});
    for (const nn::LayerFlow& f : m.flow) {
      table.add({m.step, f.layer, {}, "resid_pre_grad", f.resid_pre_grad});
      table.add({m.step, f.layer, {}, "resid_post_grad", f.resid_post_grad});
    }
    for (const nn::HeadReport& h : m.heads)
      for (const nn::HeadQuantity& q : nn::head_quantities())
        table.add({m.step, h.layer, h.head, q.name, h.*q.value});
  }
  return table;
}

plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskFacts& facts,
                                 const std::string& run) {
  plot::ChartStack stack;
  stack.title = fmt::format("{}, {}: what training does to each head", facts.name, run);
  stack.caption = fmt::format(
      "The loss and its gradients on the same {} sequences at every checkpoint.", study.sequences);
  if (!facts.accuracy.empty()) stack.caption += fmt::format(" Counted tokens: {}.", facts.accuracy);
  stack.panels.push_back(loss_panel(study));
  for (const nn::HeadQuantity& q : nn::head_quantities()) {
    if (q.panel.title.empty()) continue;
    if (plot::LineChart panel = head_panel(study, q); has_finite(panel))
      stack.panels.push_back(std::move(panel));
  }
  stack.panels.push_back(flow_panel(study));
  stack.panels.back().x_name = "training step";
  name_heads(stack, study.moments[0].heads);
  if (const auto fall = nn::steepest_fall(study))
    stack.vline = {fmt::format("the loss falls fastest: steps {} to {}", fall->from, fall->to),
                   fall->middle()};
  return stack;
}

Report study_over_time(const std::string& run_name, const std::string& out_name, bool overwrite) {
  const std::filesystem::path folder = find_run(run_name);
  const std::vector<nn::CheckpointFile> checkpoints = nn::RunFolder(folder).checkpoints();
  heed::check<autograd::IoError>(
      !checkpoints.empty(), "over-time", folder.string(),
      " has no checkpoints; train with --save-every, as heed train --save-every 10 does");
  const auto first = std::filesystem::relative(checkpoints[0].file, folder);
  nn::LoadedRun run = open_run(folder, first.string(), nn::Use::kSequences);
  const nn::TaskFacts& facts = run.task->facts();
  const auto out = open_study_folder(out_name, folder / "over-time", overwrite);
  Progress progress(false);
  const nn::OverTime study = nn::over_time(
      run.model, checkpoints, nn::batch_over_time(run.model, *run.task),
      [&](std::int64_t done, std::int64_t total) {
        progress.at_work(fmt::format("studies the checkpoints: {} of {}", done, total));
      });

  const auto file = [&](const char* name) { return (out->staging() / name).string(); };
  const std::string csv = to_csv(over_time_table(study));
  autograd::write_file(file("over_time.csv"), std::string_view(csv));
  const nn::Json json = over_time_json(study, folder.string());
  autograd::write_file(file("over_time.json"), std::string_view(json.dump() + "\n"));
  const PictureSource source = source_of(folder, run.model);
  const plot::ChartStack chart = over_time_chart(study, facts, source.run_name());
  plot::write_png(file("over_time.png"), plot::draw_chart_stack(chart),
                  fmt::format("{}. {}", chart.title, chart.caption), png_facts(source));
  progress.at_work("draws the page");
  nn::Generator generator(1);
  const nn::Batch one = run.task->example(generator);
  const auto labels = facts.vocabulary.labels(one.inputs.to_vector<std::int64_t>());
  const StudyWords words = study_words(source, {}, labels, facts);
  const auto page = write_report(
      out->staging(), fmt::format("{}: {} over time", source.run_name(), words.objective),
      {pane_over_time(source, words, run.model, one, checkpoints, study)});
  progress.clear();

  Report report(over_time_keys());
  for (const auto& [key, value] : json.entries()) report.set(key, value);
  add_text(report, study, folder.string());
  report.files(
      out->publish({file("over_time.csv"), file("over_time.json"), file("over_time.png"), page}));
  return report;
}

}  // namespace heed
