#include "tools/heed/study/over_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/base/files.h"
#include "nn/io/safetensors.h"
#include "nn/layers/sites.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_files.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

constexpr double kHalfScore = 0.5;  // an induction head has at least this induction score

// ---- JSON and CSV

constexpr Column kFlowColumns[] = {{"layer"}, {"resid_pre_grad"}, {"resid_post_grad"}};

// Returns the quantities that nn::over_time() sets.
const std::vector<nn::HeadQuantity>& quantities_over_time() {
  static const std::vector<nn::HeadQuantity> all = [] {
    std::vector<nn::HeadQuantity> list;
    for (const nn::HeadQuantity& q : nn::head_quantities())
      if (q.source == nn::HeadQuantity::kStudy || q.source == nn::HeadQuantity::kEffects)
        list.push_back(q);
    return list;
  }();
  return all;
}

nn::Json over_time_json(const nn::OverTime& study, const std::string& run) {
  const nn::CheckpointStudy& first = study.checkpoints[0];
  nn::Json heads = nn::Json::array(), layers = nn::Json::array();
  for (std::size_t i = 0; i < first.heads.size(); ++i) {
    nn::Json head =
        nn::Json::object({{"layer", first.heads[i].layer}, {"head", first.heads[i].head}});
    for (const nn::HeadQuantity& q : quantities_over_time())
      head.append(std::string(q.name), study.by_step(i, q.quantity));
    heads.push_back(std::move(head));
  }
  for (std::size_t i = 0; i < first.flow.size(); ++i)
    layers.push_back(object_of(
        kFlowColumns, {first.flow[i].layer, study.by_step(i, &nn::LayerFlow::resid_pre_grad),
                       study.by_step(i, &nn::LayerFlow::resid_post_grad)}));
  nn::Json fall_json;
  if (const auto fall = nn::steepest_fall(study))
    fall_json = std::vector<std::int64_t>{fall->from, fall->to};
  return nn::Json::object({{"run", run},
                           {"sequences", study.sequences},
                           {"optimal_loss", study.optimal},
                           {"steps", study.by_step(&nn::CheckpointStudy::step)},
                           {"values", study.by_step(&nn::CheckpointStudy::value)},
                           {"loss", study.by_step(&nn::CheckpointStudy::loss)},
                           {"counted_loss", study.by_step(&nn::CheckpointStudy::counted_loss)},
                           {"heads", heads},
                           {"layers", layers},
                           {"steepest_fall", fall_json}});
}

// ---- text

// Returns a table with a row for each checkpoint: the losses, and one score of the heads in which
// this score is largest.
std::optional<Table> score_table(const nn::OverTime& study, const char* title, nn::Quantity score) {
  const std::vector<std::size_t> heads = nn::strongest_heads(study, score);
  if (heads.empty()) return {};
  std::vector<std::string> names;
  for (const std::size_t i : heads) names.push_back(nn::head_name(study.checkpoints[0].heads[i]));
  std::vector<Column> columns{
      {"step", "step"}, {"loss", "loss", "", "{:.3f}"}, {"counted_loss", "counted", "", "{:.3f}"}};
  for (const std::string& name : names) columns.push_back({name, name, "", "{:.2f}"});
  Table table(columns);
  table.title = title;
  for (const nn::CheckpointStudy& m : study.checkpoints) {
    std::vector<Value> row{m.step, m.loss, m.counted_loss};
    for (const std::size_t i : heads) row.push_back(m.heads[i][score]);
    table.add(std::move(row));
  }
  return table;
}

// Finds the first layer with a head whose induction score reaches kHalfScore after the first
// checkpoint. Returns this layer and the step of the checkpoint.
std::optional<std::pair<std::int64_t, std::int64_t>> induction_forms(const nn::OverTime& study) {
  for (const nn::LayerFlow& f : study.checkpoints[0].flow) {
    const auto step = nn::first_reached(study, nn::kInduction, f.layer, kHalfScore);
    if (step && *step > study.checkpoints[0].step) return std::pair{f.layer, *step};
  }
  return {};
}

Section time_section(const nn::OverTime& study, const Subject& s, const std::string& sequences) {
  Section section{.key = "time",
                  .title = fmt::format("{}: {} checkpoints on {}", s.folder(),
                                       study.checkpoints.size(), sequences)};
  section.sentences = {fmt::format(
      "L is {}; it is {:.3g} at the first checkpoint and {:.3g} at the last. The optimal loss is "
      "{}.",
      s.texts.objective, study.checkpoints.front().value, study.checkpoints.back().value,
      std::isfinite(study.optimal) ? fmt::format("{:.4f}", study.optimal) : "unknown")};
  if (const auto fall = nn::steepest_fall(study))
    section.sentences.push_back(
        fmt::format("The loss falls fastest between steps {} and {}.", fall->from, fall->to));
  if (const auto forms = induction_forms(study))
    section.sentences.push_back(
        fmt::format("Layer {}: the induction score of a head first reaches {} at step {}.",
                    forms->first, kHalfScore, forms->second));
  for (const auto& [title, score] :
       {std::pair{"previous token", nn::kPreviousToken}, std::pair{"induction", nn::kInduction},
        std::pair{"entropy, nats", nn::kEntropy}})
    if (auto table = score_table(study, title, score); table && section.tables.size() < 2)
      section.tables.push_back(std::move(*table));
  section.pictures.push_back({"over_time",
                              over_time_chart(study, s.info(), s.texts.objective, sequences),
                              "All checkpoints are studied on the same sequences."});
  return section;
}

// ---- analyses at every checkpoint

// Repeats the numbers of an analysis, those of its first table, at every checkpoint.
class Repeated {
 public:
  explicit Repeated(std::string key) { section_.key = std::move(key); }

  void add(std::int64_t step, const Section& s) {
    if (s.tables.empty()) return;
    const Table& table = s.tables[0];
    if (section_.tables.empty()) {
      section_.title = s.title + ", over time", section_.sentences = s.sentences;
      std::vector<Column> columns{{"step", "step"}};
      columns.insert(columns.end(), table.columns.begin(), table.columns.end());
      section_.tables.emplace_back(columns);
      section_.tables[0].shown = 24;
    }
    for (const std::vector<Value>& row : table.rows) {
      const std::string place =
          row[0].as<std::string>() ? *row[0].as<std::string>() : row[0].dump();
      std::vector<Value> cells{step};
      cells.insert(cells.end(), row.begin(), row.end());
      section_.tables[0].add(std::move(cells));
      bool is_first = true;
      for (std::size_t i = 1; i < row.size(); ++i) {
        if (!row[i].as<double>()) continue;
        const Column& column = table.columns[i];
        numbers_.push_back({step,
                            fmt::format("{}: {}: {}", section_.key, place,
                                        column.key.empty() ? column.label : column.key),
                            *row[i].as<double>()});
        if (std::exchange(is_first, false)) lines_[place].emplace_back(step, *row[i].as<double>());
      }
    }
  }

  Section section() const {
    Section s = section_;
    plot::LineChart chart{.title = s.title, .x_name = "training step", .height = 300};
    const auto largest = [](const auto& points) {
      return std::abs(
          std::ranges::max(points, {}, [](const auto& p) { return std::abs(p.second); }).second);
    };
    std::vector<std::string> places;
    for (const auto& [place, points] : lines_) places.push_back(place);
    std::ranges::stable_sort(places, std::greater<>(),
                             [&](const std::string& p) { return largest(lines_.at(p)); });
    places.resize(std::min(places.size(), kMostLines));
    for (const std::string& place : places) {
      plot::Series& line = chart.series.emplace_back();
      line.name = place;
      for (const auto& [step, y] : lines_.at(place))
        line.x.push_back(double(step)), line.y.push_back(y);
    }
    if (!chart.series.empty())
      s.pictures.push_back({s.key + "_over_time",
                            {plot::ChartStack{.title = s.title, .panels = {std::move(chart)}}}});
    return s;
  }
  // Adds the numbers to the table of over_time.csv.
  void add_to(Table& csv) const {
    for (const auto& [step, quantity, value] : numbers_) csv.add({step, {}, {}, quantity, value});
  }

 private:
  static constexpr std::size_t kMostLines = 8;
  struct Number {
    std::int64_t step;
    std::string quantity;
    double value;
  };
  Section section_;
  std::vector<Number> numbers_;
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> lines_;
};

// Returns the sample with L, the unchanged run and the replacements of another checkpoint.
HeadSample on_sample(const Subject& s, const HeadSample& sample) {
  HeadSample here = sample;
  here.run = nn::BaseRun(s.model(), sample.run.batch, sample.run.objective);
  here.replaced = nn::replacement(s.model(), sample.run.batch, sample.replaced.how);
  return here;
}

// Runs the analyses whose options are given, and those without options that always run, at every
// checkpoint.
std::vector<Repeated> repeated_analyses(const Subject& last, const HeadArguments& arguments,
                                        const Command& c, Progress& progress,
                                        const std::vector<nn::CheckpointFile>& checkpoints,
                                        const std::filesystem::path& folder) {
  std::vector<const Analysis*> chosen;
  std::vector<Repeated> repeated;
  const auto context_of = [&](const Subject& s, const HeadStudy& heads) {
    return StudyContext(c, arguments, s, heads, progress, folder);
  };
  HeadStudy none;
  StudyContext first = context_of(last, none);
  for (const Analysis* a : analyses()) {
    if (a->check) a->check(first);
    if (!a->is_asked(first) && !(a->repeats && a->runs(first))) continue;
    chosen.push_back(a), repeated.emplace_back(std::string(a->key));
  }
  if (chosen.empty()) return repeated;
  const HeadSample sample = sample_of(arguments, c, last);  // the rivals of a margin are its
  for (const nn::CheckpointFile& checkpoint : checkpoints) {
    const auto file = std::filesystem::relative(checkpoint.file, last.source.run).string();
    bool has_sequences = true;
    const auto run = open_for_study(last.source.run, file, has_sequences);
    const Subject s(last.source.run, run, last.sequence, last.objective);
    HeadStudy heads;
    heads.sample = on_sample(s, sample);
    StudyContext context = context_of(s, heads);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      repeated[i].add(checkpoint.step, chosen[i]->run(context));
  }
  return repeated;
}

// ---- picture and page

std::vector<double> steps_of(const nn::OverTime& study) {
  return study.by_step([](const nn::CheckpointStudy& m) { return double(m.step); });
}

// Returns a line for each head.
std::vector<plot::Series> head_lines(const nn::OverTime& study, nn::Quantity value) {
  std::vector<plot::Series> lines;
  const std::vector<nn::HeadReport>& heads = study.checkpoints[0].heads;
  for (std::size_t i = 0; i < heads.size(); ++i)
    lines.push_back(head_line(heads[i], steps_of(study), study.by_step(i, value)));
  return lines;
}

bool has_finite(const plot::LineChart& panel) {
  return std::ranges::any_of(panel.series, [](const plot::Series& s) {
    return std::ranges::any_of(s.y, [](double y) { return std::isfinite(y); });
  });
}

plot::LineChart loss_panel(const nn::OverTime& study) {
  plot::LineChart panel{.title = "loss (nats per token)", .height = 150};
  panel.series.push_back({.name = "all targets",
                          .x = steps_of(study),
                          .y = study.by_step(&nn::CheckpointStudy::loss)});
  panel.series.push_back({.name = "counted tokens",
                          .x = steps_of(study),
                          .y = study.by_step(&nn::CheckpointStudy::counted_loss),
                          .dash = 1});
  panel.ends = {0};
  if (std::isfinite(study.optimal)) panel.hlines.push_back({"optimal", study.optimal});
  return panel;
}

plot::LineChart head_panel(const nn::OverTime& study, const nn::HeadQuantity& quantity) {
  using Panel = nn::HeadQuantity::Panel;
  plot::LineChart panel{.title = std::string(quantity.panel.title),
                        .log_y = quantity.panel.axis == Panel::kLog};
  if (quantity.panel.axis == Panel::kShare) panel.ends = {0, 1};
  if (quantity.panel.axis == Panel::kFromZero) panel.ends = {0};
  panel.series = head_lines(study, quantity.quantity);
  return panel;
}

plot::LineChart flow_panel(const nn::OverTime& study) {
  plot::LineChart panel{.title = "gradient flow: |dL/d(residual stream)| after each layer",
                        .log_y = true};
  for (std::size_t i = 0; i < study.checkpoints[0].flow.size(); ++i)
    panel.series.push_back({.x = steps_of(study),
                            .y = study.by_step(i, &nn::LayerFlow::resid_post_grad),
                            .color = int(study.checkpoints[0].flow[i].layer)});
  return panel;
}

// Returns a pane with as many checkpoints as fit into the page. Loads their weights into `model`,
// which has the weights of the last one afterwards.
nn::Json pane_over_time(const Subject& s, nn::Transformer& model,
                        const std::vector<nn::CheckpointFile>& checkpoints,
                        const nn::OverTime& study) {
  constexpr double kMapBytes = 7'500'000;  // of the maps; the page has at most 8 MB
  const auto checkpoint = [&](const nn::CheckpointFile& c, bool complete) {
    nn::load_parameters(parameters(model), nn::load_safetensors(c.file.string()));
    return checkpoint_json(c.step, model, nn::study(model, s.sequence, s.objective), complete);
  };
  const auto most = kMapBytes / double(checkpoint(checkpoints.front(), false).dump().size());
  const auto selected = nn::select_checkpoints(checkpoints, study, std::size_t(most));
  nn::Json pane = make_pane(s);
  pane["saved_checkpoints"] = checkpoints.size();
  for (const nn::CheckpointFile& c : selected)
    pane["checkpoints"].push_back(checkpoint(c, c.step == selected.back().step));
  return pane;
}

// The sequences of L as text, and L on them.
struct StudiedSequences {
  nn::OverTimeSubject subject;
  std::string text;
};

StudiedSequences sequences_of(const Subject& s, const HeadArguments& heads, const Command& c) {
  constexpr std::int64_t kRepeats = 8;
  const nn::Task& task = *s.run->task;
  const nn::Batch evaluation = nn::evaluation_over_time(s.model(), task).evaluation;
  if (c.given("prompt") || c.given("sample"))
    return {{s.sequence, s.objective, evaluation}, "one sequence"};
  nn::Batch batch = evaluation;
  std::string text = fmt::format("{} sequences", batch.inputs.size(0));
  if (c.given("repeat-random")) {
    const nn::RepeatedTokens sizes = repeated_tokens(heads, task);
    batch = repeated_sequences(task, sizes, kRepeats);
    text = fmt::format("{} sequences of {}", kRepeats, sizes.text());
  }
  nn::Objective o = s.objective;
  if (o.kind == nn::Objective::kMargin) o = nn::margin(s.model(), batch, o.positions);
  return {{batch, o, evaluation}, text};
}

}  // namespace

Columns over_time_keys() {
  static const std::vector<Column> heads = [] {
    std::vector<Column> keys{{"layer"}, {"head"}};
    for (const nn::HeadQuantity& q : quantities_over_time()) keys.push_back({q.name});
    return keys;
  }();
  static const Column all[] = {{"format"},
                               {"run"},
                               {"sequences"},
                               {"optimal_loss"},
                               {"steps"},
                               {"values"},
                               {"loss"},
                               {"counted_loss"},
                               fields("heads", {heads.data(), heads.size()}),
                               fields("layers", kFlowColumns),
                               {"steepest_fall"},
                               fields("sections", kSectionKeys),
                               {"files"}};
  return all;
}

Table over_time_table(const nn::OverTime& study) {
  static constexpr Column kColumns[] = {{"step"}, {"layer"}, {"head"}, {"quantity"}, {"value"}};
  Table table(kColumns);
  for (const nn::CheckpointStudy& m : study.checkpoints) {
    table.add({m.step, {}, {}, "value", m.value});
    table.add({m.step, {}, {}, "loss", m.loss});
    table.add({m.step, {}, {}, "counted_loss", m.counted_loss});
    table.add({m.step, {}, {}, "optimal_loss", study.optimal});
    for (const nn::LayerFlow& f : m.flow) {
      table.add({m.step, f.layer, {}, "resid_pre_grad", f.resid_pre_grad});
      table.add({m.step, f.layer, {}, "resid_post_grad", f.resid_post_grad});
    }
    for (const nn::HeadReport& h : m.heads)
      for (const nn::HeadQuantity& q : quantities_over_time())
        table.add({m.step, h.layer, h.head, q.name, h[q.quantity]});
  }
  return table;
}

plot::ChartStack over_time_chart(const nn::OverTime& study, const nn::TaskInfo& info,
                                 const std::string& objective, const std::string& sequences) {
  plot::ChartStack stack;
  stack.title = fmt::format("Heads during training: {}", info.name);
  stack.caption = fmt::format("L is {}. Means over {}.", objective, sequences);
  if (!info.accuracy.empty()) stack.caption += fmt::format(" Counted tokens: {}.", info.accuracy);
  stack.panels.push_back(loss_panel(study));
  stack.panels.push_back(
      {.title = "L",
       .series = {{.x = steps_of(study), .y = study.by_step(&nn::CheckpointStudy::value)}}});
  for (const nn::HeadQuantity& q : nn::head_quantities()) {
    if (q.panel.title.empty()) continue;
    if (plot::LineChart panel = head_panel(study, q); has_finite(panel))
      stack.panels.push_back(std::move(panel));
  }
  stack.panels.push_back(flow_panel(study));
  stack.panels.back().x_name = "training step";
  name_heads(stack, study.checkpoints[0].heads);
  if (const auto fall = nn::steepest_fall(study))
    stack.vline = {fmt::format("the loss falls fastest: steps {} to {}", fall->from, fall->to),
                   fall->middle()};
  return stack;
}

std::string last_checkpoint(const std::string& run) {
  const std::filesystem::path folder = find_run(run);
  const auto checkpoints = nn::RunFolder(folder).checkpoints();
  heed::check<autograd::IoError>(
      !checkpoints.empty(), "over-time", folder.string(),
      " has no checkpoints; train with --save-every, for example heed train --save-every 10");
  return std::filesystem::relative(checkpoints.back().file, folder).string();
}

Report study_over_time(const Subject& subject, const HeadArguments& heads, const Command& c,
                       const std::string& out_name, bool overwrite) {
  const std::filesystem::path folder = subject.source.run;
  const std::vector<nn::CheckpointFile> checkpoints = nn::RunFolder(folder).checkpoints();
  const auto out = open_study_folder(out_name, folder / "over-time", overwrite);
  const auto [studied, sequences] = sequences_of(subject, heads, c);
  nn::Transformer model = nn::clone(subject.model());
  Progress progress(false);
  const nn::OverTime study =
      nn::over_time(model, checkpoints, studied, [&](std::int64_t done, std::int64_t total) {
        progress.at_work(fmt::format("Studying checkpoints: {} of {}", done, total));
      });

  std::vector<Section> sections{time_section(study, subject, sequences)};
  Table csv = over_time_table(study);
  for (const Repeated& r :
       repeated_analyses(subject, heads, c, progress, checkpoints, out->staging())) {
    sections.push_back(r.section());
    r.add_to(csv);
  }
  const auto file = [&](const char* name) { return (out->staging() / name).string(); };
  autograd::write_file(file("over_time.csv"), std::string_view(to_csv(csv)));
  const nn::Json json = over_time_json(study, folder.string());
  autograd::write_file(file("over_time.json"), std::string_view(json.dump() + "\n"));
  progress.at_work("Writing the page");
  Files files = write_document(
      out->staging(), subject.source,
      fmt::format("{}: {} over time", subject.source.run_name(), subject.texts.objective), sections,
      pane_data({pane_over_time(subject, model, checkpoints, study)}));
  append(files, {file("over_time.csv"), file("over_time.json")});
  progress.clear();

  Report report(over_time_keys());
  report.set("format", kStudyFormat);
  for (const auto& [key, value] : json.entries()) report.set(key, value);
  report.set("sections", sections_json(sections));
  for (const Section& s : sections) add_section(report, s, true);
  report.files(out->publish(files));
  return report;
}

}  // namespace heed
