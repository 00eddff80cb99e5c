#include "tools/heed/study/run_differences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "nn/run/first_difference.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_files.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

struct StudiedPair {
  const Subject &a, &b;
  nn::Study study_a, study_b;
};

void check_same_tokens(const Subject& a, const std::string& b_folder, const nn::TaskInfo& y) {
  const nn::TaskInfo& x = a.info();
  if (x.vocabulary.symbols() != y.vocabulary.symbols())
    usage_error("{} reads {}, but {} reads {}; give runs with the same vocabulary", a.folder(),
                x.vocabulary.summary(), b_folder, y.vocabulary.summary());
  if (x.classes != y.classes)
    usage_error("{} predicts {} tokens, but {} predicts {}; give runs that predict the same tokens",
                a.folder(), x.classes, b_folder, y.classes);
  if (const std::int64_t length = a.sequence.inputs.numel(); length > y.context)
    usage_error(
        "the sequence has {} tokens, but {} reads at most {}; give a shorter sequence with "
        "--prompt",
        length, b_folder, y.context);
}

// Returns the lines of the config.toml of `config` that are not in the config.toml of `other`.
std::vector<std::string> lines_without(const nn::RunConfig& config, const nn::RunConfig& other) {
  const std::string other_text = "\n" + to_toml(other);
  std::vector<std::string> lines = heed::split(to_toml(config), '\n');
  std::erase_if(lines, [&](const std::string& line) {
    return line.empty() || other_text.find("\n" + line + "\n") != std::string::npos;
  });
  return lines;
}

// ---- pictures

// Returns the maps [1, H, T, T] of each layer of `s` in float32, restricted to the layers and heads
// that `other` has, too.
std::vector<nn::Tensor> shared_maps(const nn::Study& s, const nn::Study& other,
                                    nn::Tensor nn::LayerStudy::*maps) {
  std::vector<nn::Tensor> shared;
  for (std::size_t l = 0; l < std::min(s.layers.size(), other.layers.size()); ++l) {
    const nn::Tensor x = to(s.layers[l].*maps, autograd::float32);
    shared.push_back(slice(x, 1, 0, std::min(x.size(1), (other.layers[l].*maps).size(1))));
  }
  return shared;
}

plot::HeatmapGrid shared_patterns(const nn::Study& s, const nn::Study& other) {
  return heads_grid(shared_maps(s, other, &nn::LayerStudy::pattern),
                    shared_maps(s, other, &nn::LayerStudy::scores));
}

Files draw_grid(const std::filesystem::path& file, plot::HeatmapGrid grid, const StudiedPair& s) {
  grid.row_labels = grid.col_labels = s.a.texts.tokens;
  grid.masked = "hidden by the mask";
  return write_picture(
      file, grid, s.a.source,
      fmt::format("Run A is {}, run B is {}. L is {}. Heads with the same number need not do the "
                  "same in two runs.",
                  s.a.folder(), s.b.folder(), s.a.texts.objective),
      {{"Run B", s.b.source.run_name()}, {"Weights B", s.b.source.weights}});
}

std::string runs_text(const StudiedPair& s) {
  return fmt::format("A: {}; B: {}.", s.a.source.run_name(), s.b.source.run_name());
}

// Draws the attention weights of run A and run B side by side, with a row of panels for each layer.
Files draw_both(const std::filesystem::path& out, const StudiedPair& s) {
  plot::HeatmapGrid grid = shared_patterns(s.study_a, s.study_b);
  std::vector<plot::Panel> of_a = std::move(grid.panels),
                           of_b = shared_patterns(s.study_b, s.study_a).panels;
  grid.panels.clear();
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    of_a[i].title += ", run A", of_b[i].title += ", run B";
    grid.panels.push_back(std::move(of_a[i])), grid.panels.push_back(std::move(of_b[i]));
  }
  grid.panel_columns *= 2;
  grid.title = "Attention weights in two runs";
  grid.caption = runs_text(s);
  if (2 * std::max(s.study_a.heads.size(), s.study_b.heads.size()) > grid.panels.size())
    grid.caption += " Only heads that both runs have.";
  grid.value_name = "attention weight";
  grid.limit = 1;
  return draw_grid(out / "weights.png", std::move(grid), s);
}

Files draw_difference(const std::filesystem::path& out, const StudiedPair& s,
                      const nn::MapQuantity& quantity) {
  plot::HeatmapGrid grid = difference_grid(s.study_a, s.study_b, quantity);
  grid.scale = plot::ColorScale::kDiverging;
  grid.title = fmt::format("{}: run B minus run A", quantity.picture.value_name);
  grid.caption = runs_text(s) + " Orange: larger in B; blue: larger in A.";
  grid.limit = largest_magnitude(grid);
  grid.value_name = "run B - run A";
  return draw_grid(out / fmt::format("{}_difference.png", quantity.picture.file), std::move(grid),
                   s);
}

// ---- numbers

// For each layer and head, the reports of run A and run B. A pointer is null if the run has no such
// head.
using HeadPairs =
    std::map<std::pair<std::int64_t, std::int64_t>, std::array<const nn::HeadReport*, 2>>;
HeadPairs head_pairs(const StudiedPair& s) {
  HeadPairs pairs;
  for (const nn::HeadReport& h : s.study_a.heads) pairs[{h.layer, h.head}][0] = &h;
  for (const nn::HeadReport& h : s.study_b.heads) pairs[{h.layer, h.head}][1] = &h;
  return pairs;
}

// Returns the value of `q` in run A and in run B. A value is NaN if the run has no such head.
std::pair<double, double> values_of(const nn::HeadQuantity& q,
                                    const std::array<const nn::HeadReport*, 2>& reports) {
  return {reports[0] ? reports[0]->*q.value : NAN, reports[1] ? reports[1]->*q.value : NAN};
}

constexpr Column kHeadDifferences[] = {{"layer"}, {"head"}, {"quantity"},
                                       {"a"},     {"b"},    {"difference"}};
// Returns the table of compare.csv: one row for each head and quantity.
Table head_differences(const StudiedPair& s) {
  Table table(kHeadDifferences);
  for (const auto& [at, reports] : head_pairs(s))
    for (const nn::HeadQuantity& q : nn::head_quantities()) {
      const auto [a, b] = values_of(q, reports);
      table.add({at.first, at.second, q.name, a, b, b - a});
    }
  return table;
}

constexpr Column kScoreDifferences[] = {
    {"", "head"}, {"", "A", "", "{:.3f}"}, {"", "B", "", "{:.3f}"}, {"", "B-A", "", "{:.3f}"}};
// Adds the tables of the text output: one for each quantity with the flag kComparison. A table has
// one row for each head.
void add_score_tables(Report& report, const StudiedPair& s) {
  constexpr std::size_t kShown = 24;
  for (const nn::HeadQuantity& q : nn::head_quantities()) {
    if (!(q.text & q.kComparison)) continue;
    Table& table = report.text_table(kScoreDifferences);
    table.title = q.name, table.shown = kShown;
    for (const auto& [at, reports] : head_pairs(s)) {
      const auto [a, b] = values_of(q, reports);
      table.add({nn::head_name({at.first, at.second}), a, b, b - a});
    }
  }
}

constexpr Column kHeadPair[] = {{"layer"}, {"head"}, {"a"}, {"b"}};
Value heads_json(const StudiedPair& s) {
  const auto numbers = [](const nn::HeadReport* h) {
    if (!h) return Value();
    Value json = Value::object();
    for (const nn::HeadQuantity& q : nn::head_quantities())
      json.append(std::string(q.name), h->*q.value);
    return json;
  };
  Table heads(kHeadPair);
  for (const auto& [at, reports] : head_pairs(s))
    heads.add({at.first, at.second, numbers(reports[0]), numbers(reports[1])});
  return list_of(heads);
}

// Compares the weights of two runs at all steps that both runs saved. Returns no value if the
// names, shapes or dtypes of the weights differ.
std::optional<nn::RunsDifference> compared_weights(const Subject& a, const Subject& b) {
  const auto x = parameters(a.model()), y = parameters(b.model());
  const bool same = std::ranges::equal(x, y, [](const auto& p, const auto& q) {
    return p.name == q.name && p.tensor.shape() == q.tensor.shape() &&
           p.tensor.dtype() == q.tensor.dtype();
  });
  if (!same) return {};
  return nn::compare_weights(a.source.run, b.source.run);
}

std::string weights_text(const std::optional<nn::RunsDifference>& weights) {
  if (!weights) return "weights: not compared, because their names, shapes or dtypes differ";
  const auto& steps = weights->steps;
  if (const auto& d = weights->first) {
    std::string index;
    autograd::append_text(index, d->index);
    return fmt::format("weights first differ at step {}: {} {}: {:.9g} and {:.9g}", steps.back(),
                       d->tensor, index, d->a, d->b);
  }
  if (steps.empty()) return "weights: not compared, because the runs have no saved step in common";
  if (steps.size() == 1)
    return fmt::format("weights: equal, bit by bit, at step {}, the only step that both saved",
                       steps[0]);
  return fmt::format("weights: equal, bit by bit, at all {} steps that both saved, {} to {}",
                     steps.size(), steps.front(), steps.back());
}

constexpr Column kFirstDifference[] = {{"step"}, {"tensor"}, {"index"}, {"a"}, {"b"}};
constexpr Column kComparison[] = {{"runs"},
                                  {"objective"},
                                  {"values"},
                                  {"config"},
                                  fields("heads", kHeadPair),
                                  {"equal"},
                                  fields("first_difference", kFirstDifference),
                                  {"files"}};

Report comparison_report(const StudiedPair& s, const std::optional<nn::RunsDifference>& weights) {
  const nn::RunConfig &a = s.a.run->config, &b = s.b.run->config;
  const auto only_a = lines_without(a, b), only_b = lines_without(b, a);
  const std::string of = s.a.objective_text();
  Report report(kComparison);
  report.set("runs", std::vector<std::string>{s.a.folder(), s.b.folder()});
  report.set("objective", of);
  report.set("values", std::vector<double>{s.study_a.value, s.study_b.value});
  report.set("config", std::vector<std::vector<std::string>>{only_a, only_b});
  report.set("heads", heads_json(s));
  report.set("equal", weights && !weights->steps.empty() && !weights->first);
  if (weights && weights->first) {
    const nn::WeightDifference& d = *weights->first;
    report.set("first_difference",
               object_of(kFirstDifference,
                         {weights->steps.back(), d.tensor,
                          std::vector<std::int64_t>(d.index.begin(), d.index.end()), d.a, d.b}));
  }
  report.line("A {}: {} = {:.6f}", s.a.folder(), of, s.study_a.value);
  report.line("B {}: {} = {:.6f}", s.b.folder(), of, s.study_b.value);
  const bool is_margin = s.a.objective.kind == nn::Objective::kMargin;
  report.line("L is {}{}", s.a.texts.objective,
              is_margin ? "; B is measured with the tokens of A" : "");
  for (const std::string& line : only_a) report.line("only A: {}", line);
  for (const std::string& line : only_b) report.line("only B: {}", line);
  report.line("{}", weights_text(weights));
  add_score_tables(report, s);
  return report;
}

}  // namespace

plot::HeatmapGrid difference_grid(const nn::Study& a, const nn::Study& b,
                                  const nn::MapQuantity& quantity) {
  constexpr auto kScores = &nn::LayerStudy::scores;
  auto maps = shared_maps(b, a, quantity.values), scores = shared_maps(b, a, kScores);
  const auto maps_a = shared_maps(a, b, quantity.values), scores_a = shared_maps(a, b, kScores);
  for (std::size_t l = 0; l < maps.size(); ++l) {
    maps[l] = maps[l] - maps_a[l];
    scores[l] = maximum(scores[l], scores_a[l]);  // a cell is masked if both runs hide it
  }
  return heads_grid(maps, scores);
}

Columns run_difference_keys() { return kComparison; }

Report run_differences(const Subject& a, const std::string& other, const std::string& weights,
                       const std::string& out, bool overwrite) {
  const std::filesystem::path b_folder = find_run(other);
  const auto run = std::make_shared<nn::LoadedRun>(open_run(b_folder, weights, nn::Use::kPrompts));
  check_same_tokens(a, b_folder.string(), run->task->info());
  const Subject b(b_folder, run, a.sequence, a.objective);
  const auto folder = open_study_folder(out, a.source.run / "compared", overwrite);
  const std::filesystem::path staging = folder->staging();
  Progress progress(false);
  progress.at_work("Running both models forward and backward");
  const StudiedPair s{a, b, a.study(), b.study()};
  progress.at_work("Comparing weights");
  const auto difference = compared_weights(a, b);
  progress.at_work("Drawing pictures");
  Files files = {staging / "compare.csv"};
  autograd::write_file(files[0].string(), std::string_view(to_csv(head_differences(s))));
  append(files, draw_both(staging, s));
  for (const nn::MapQuantity& q : nn::map_quantities())
    if (!q.picture.file.empty()) append(files, draw_difference(staging, s, q));
  files.push_back(write_page(
      staging,
      fmt::format("{} and {}: {}", a.source.run_name(), b.source.run_name(), a.texts.objective),
      {pane_of(a, s.study_a), pane_of(b, s.study_b)}));
  progress.clear();
  Report report = comparison_report(s, difference);
  report.files(folder->publish(files));
  return report;
}

}  // namespace heed
