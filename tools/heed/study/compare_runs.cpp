#include "tools/heed/study/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "autograd/base/files.h"
#include "nn/run/first_difference.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/causes.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_files.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

constexpr const char* kCompareFile = "compare.csv";

// A head of either run; nullptr where a run has no such head.
struct HeadPair {
  std::int64_t layer, head;
  const nn::HeadReport *a, *b;
};

struct StudiedPair {
  PictureSource source_a, source_b;
  nn::Study a, b;
  std::vector<HeadPair> heads;
};

const nn::HeadReport* find_head(const nn::Study& s, std::int64_t layer, std::int64_t head) {
  const auto found = std::find_if(s.heads.begin(), s.heads.end(), [&](const nn::HeadReport& h) {
    return h.layer == layer && h.head == head;
  });
  return found == s.heads.end() ? nullptr : &*found;
}

std::vector<HeadPair> pair_heads(const nn::Study& a, const nn::Study& b) {
  std::vector<HeadPair> pairs;
  for (const nn::HeadReport& h : a.heads)
    pairs.push_back({h.layer, h.head, &h, find_head(b, h.layer, h.head)});
  for (const nn::HeadReport& h : b.heads)
    if (!find_head(a, h.layer, h.head)) pairs.push_back({h.layer, h.head, nullptr, &h});
  std::sort(pairs.begin(), pairs.end(), [](const HeadPair& x, const HeadPair& y) {
    return std::pair(x.layer, x.head) < std::pair(y.layer, y.head);
  });
  return pairs;
}

void check_same_tokens(const Comparison& c, const nn::LoadedRun& b, const std::string& b_folder) {
  const nn::TaskFacts &x = c.run.task->facts(), &y = b.task->facts();
  if (x.vocabulary.symbols() != y.vocabulary.symbols())
    usage_error("{} reads {}, {} {}: only runs of one vocabulary compare on one sequence",
                c.folder.string(), x.vocabulary.summary(), b_folder, y.vocabulary.summary());
  if (x.classes != y.classes)
    usage_error("{} predicts {} tokens, {} {}: only runs of equal classes compare",
                c.folder.string(), x.classes, b_folder, y.classes);
  if (const std::int64_t length = c.one.inputs.numel(); length > y.context)
    usage_error("the sequence has {} tokens, {} reads {}; give a shorter one by --prompt", length,
                b_folder, y.context);
}

// Lines of config.toml that one has and the other has not.
std::vector<std::string> lines_without(const nn::RunConfig& config, const nn::RunConfig& other) {
  const std::string theirs = "\n" + to_toml(other);
  std::istringstream ours(to_toml(config));
  std::vector<std::string> lines;
  for (std::string line; std::getline(ours, line);)
    if (theirs.find("\n" + line + "\n") == std::string::npos) lines.push_back(line);
  return lines;
}

bool same_parameters(const nn::Transformer& a, const nn::Transformer& b) {
  const auto x = parameters(a), y = parameters(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& p, const auto& q) {
    return p.name == q.name && p.tensor.shape() == q.tensor.shape() &&
           p.tensor.dtype() == q.tensor.dtype();
  });
}

void finish_grid(plot::HeatmapGrid& grid, const Comparison& c) {
  grid.row_labels = grid.col_labels =
      c.run.task->facts().vocabulary.labels(c.one.inputs.to_vector<std::int64_t>());
  grid.masked = "hidden by the mask";
}

std::string draw_grid(const std::filesystem::path& file, const plot::HeatmapGrid& grid,
                      const StudiedPair& s) {
  std::vector<plot::PngText> facts = png_facts(s.source_a, grid);
  facts.push_back({"Run B", s.source_b.run_name()});
  facts.push_back({"Weights B", s.source_b.weights});
  plot::write_png(file.string(), plot::draw_heatmap(grid), grid.title + ". " + grid.caption, facts);
  return file.string();
}

// The panels of one quantity in both runs, of the heads that both have.
struct PanelPairs {
  plot::HeatmapGrid a, b;
};
PanelPairs panels_of(const nn::Study& a, const nn::Study& b, nn::Tensor nn::LayerStudy::*maps) {
  const auto of = [&](const nn::Study& s) {
    return heads_grid(s.by_layer(maps), s.by_layer(&nn::LayerStudy::scores));
  };
  PanelPairs p{of(a), of(b)};
  const auto keep = [](plot::HeatmapGrid& grid, const std::vector<plot::Panel>& other) {
    std::erase_if(grid.panels, [&](const plot::Panel& panel) {
      return std::none_of(other.begin(), other.end(),
                          [&](const plot::Panel& q) { return q.title == panel.title; });
    });
  };
  keep(p.a, p.b.panels);
  keep(p.b, p.a.panels);
  p.a.panel_columns = std::min(p.a.panel_columns, p.b.panel_columns);
  return p;
}

// A and B side by side, a row of panels a layer.
std::string draw_both(const std::filesystem::path& out, const Comparison& c, const StudiedPair& s,
                      const std::string& b_folder) {
  PanelPairs p = panels_of(s.a, s.b, &nn::LayerStudy::pattern);
  plot::HeatmapGrid grid = p.a;
  grid.panels.clear();
  for (std::size_t i = 0; i < p.a.panels.size(); ++i) {
    grid.panels.push_back(std::move(p.a.panels[i]));
    grid.panels.back().title += ", run A";
    grid.panels.push_back(std::move(p.b.panels[i]));
    grid.panels.back().title += ", run B";
  }
  grid.panel_columns *= 2;
  finish_grid(grid, c);
  grid.title = "Where each head looks in two runs";
  grid.caption =
      fmt::format("Run A is {}, run B is {}. Heads of two seeds need not correspond by number.{}",
                  c.folder.string(), b_folder,
                  p.a.panels.size() < s.heads.size() ? " Only heads that both have." : "");
  grid.value_name = "attention weight";
  return draw_grid(out / "weights.png", grid, s);
}

std::string draw_difference(const std::filesystem::path& out, const Comparison& c,
                            const StudiedPair& s, const std::string& b_folder,
                            const nn::MapQuantity& quantity) {
  plot::HeatmapGrid grid = difference_grid(s.a, s.b, quantity);
  finish_grid(grid, c);
  grid.scale = plot::ColorScale::kDiverging;
  grid.title = fmt::format("{}: run B minus run A", quantity.picture.value_name);
  grid.caption =
      fmt::format("Run A is {}, run B is {}. L is {}. Orange: run B's is larger; blue: run A's.",
                  c.folder.string(), b_folder, c.of);
  grid.value_name = "run B - run A";
  return draw_grid(out / fmt::format("{}_difference.png", quantity.picture.file), grid, s);
}

constexpr Column kHeadDifferences[] = {{"layer"},
                                       {"head"},
                                       {"", "head"},
                                       {"quantity", "score"},
                                       {"a", "A", "", "{:.3f}"},
                                       {"b", "B", "", "{:.3f}"},
                                       {"difference", "B-A", "", "{:.3f}"}};
// A row for each head and number: those of compare.csv, or the few that the text shows.
void add_pairs(Table& table, const StudiedPair& s, bool all) {
  for (const HeadPair& h : s.heads)
    for (const nn::HeadQuantity& q : nn::head_quantities()) {
      if (!all && !(q.text & q.kComparison)) continue;
      const double a = h.a ? h.a->*q.value : NAN, b = h.b ? h.b->*q.value : NAN;
      table.add({h.layer, h.head, nn::head_name({h.layer, h.head}), q.name, a, b, b - a});
    }
}

std::string place_text(const nn::WeightDifference& d) {
  std::string index;
  autograd::append_text(index, d.index);
  return fmt::format("{} {}: {:.9g} and {:.9g}", d.tensor, index, d.a, d.b);
}

// What became of the weights, in words.
std::string weights_text(const std::optional<nn::RunsDifference>& weights) {
  if (!weights) return "weights: of other names or shapes, so none compare";
  const auto& steps = weights->steps;
  if (weights->first)
    return fmt::format("weights first differ at step {}: {}", steps.back(),
                       place_text(*weights->first));
  if (steps.empty()) return "weights: the runs have no saved step in common";
  if (steps.size() == 1)
    return fmt::format("weights: equal, bit by bit, at step {}, the only one both saved", steps[0]);
  return fmt::format("weights: equal, bit by bit, at all {} steps that both saved, {} to {}",
                     steps.size(), steps.front(), steps.back());
}

constexpr Column kHeadPair[] = {{"layer"}, {"head"}, {"a"}, {"b"}};
constexpr Column kFirstDifference[] = {{"step"}, {"tensor"}, {"index"}, {"a"}, {"b"}};
constexpr Column kComparison[] = {{"runs"},
                                  {"objective"},
                                  {"values"},
                                  {"config"},
                                  fields("heads", kHeadPair),
                                  {"equal"},
                                  fields("first_difference", kFirstDifference),
                                  {"files"}};

Value heads_json(const StudiedPair& s) {
  const auto numbers = [](const nn::HeadReport* h) {
    if (!h) return Value();
    Value json = Value::object();
    for (const nn::HeadQuantity& q : nn::head_quantities())
      json.append(std::string(q.name), h->*q.value);
    return json;
  };
  Table heads(kHeadPair);
  for (const HeadPair& h : s.heads) heads.add({h.layer, h.head, numbers(h.a), numbers(h.b)});
  return list_of(heads);
}

Report comparison_report(const Comparison& c, const nn::LoadedRun& b, const std::string& b_folder,
                         const StudiedPair& s, const std::optional<nn::RunsDifference>& weights) {
  const auto only_a = lines_without(c.run.config, b.config),
             only_b = lines_without(b.config, c.run.config);
  Report report(kComparison);
  report.set("runs", std::vector<std::string>{c.folder.string(), b_folder});
  report.set("objective", c.of);
  report.set("values", std::vector<double>{s.a.value, s.b.value});
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
  report.line("A {}: {} = {:.6f}", c.folder.string(), c.of, s.a.value);
  report.line("B {}: {} = {:.6f}", b_folder, c.of, s.b.value);
  for (const std::string& line : only_a) report.line("only A: {}", line);
  for (const std::string& line : only_b) report.line("only B: {}", line);
  report.line("{}", weights_text(weights));
  add_pairs(report.text_table(kHeadDifferences), s, false);
  return report;
}

}  // namespace

plot::HeatmapGrid difference_grid(const nn::Study& a, const nn::Study& b,
                                  const nn::MapQuantity& quantity) {
  PanelPairs p = panels_of(a, b, quantity.values);
  const bool of_hidden = quantity.picture.hatched;  // defined, but of weights one run has not
  for (std::size_t i = 0; i < p.a.panels.size(); ++i) {
    plot::Panel &x = p.a.panels[i], &y = p.b.panels[i];
    std::transform(y.values.begin(), y.values.end(), x.values.begin(), x.values.begin(),
                   std::minus());
    for (std::size_t k = 0; k < std::min(x.masked.size(), y.masked.size()); ++k)
      x.masked[k] = of_hidden ? x.masked[k] | y.masked[k] : x.masked[k] & y.masked[k];
  }
  return p.a;
}

Columns comparison_keys() { return kComparison; }

Report compare_runs(const Comparison& c) {
  const std::filesystem::path other = find_run(c.other);
  const std::string b_folder = other.string();
  const nn::LoadedRun b = open_run(other, c.weights, nn::Use::kPrompts);
  check_same_tokens(c, b, b_folder);
  const auto folder = open_study_folder(c.out, c.folder / "compared", c.overwrite);
  const std::filesystem::path out = folder->staging();
  Progress progress(false);
  progress.at_work("runs both models forward and backward");
  StudiedPair s{source_of(c.folder, c.run.model),
                source_of(other, b.model),
                nn::study(c.run.model, c.one, c.objective),
                nn::study(b.model, c.one, c.objective),
                {}};
  if (!std::isfinite(s.a.value) || !std::isfinite(s.b.value))
    throw autograd::NumericError("study: the objective is not finite");
  s.heads = pair_heads(s.a, s.b);
  std::optional<nn::RunsDifference> weights;
  progress.at_work("compares the weights");
  if (same_parameters(c.run.model, b.model)) weights = nn::compare_weights(c.folder, other);
  progress.at_work("draws");
  Table pairs(kHeadDifferences);
  add_pairs(pairs, s, true);
  autograd::write_file((out / kCompareFile).string(), std::string_view(to_csv(pairs)));
  std::vector<std::filesystem::path> made = {out / kCompareFile, draw_both(out, c, s, b_folder)};
  for (const nn::MapQuantity& q : nn::map_quantities())
    if (!q.picture.file.empty()) made.push_back(draw_difference(out, c, s, b_folder, q));
  const nn::TaskFacts& facts = c.run.task->facts();
  const auto labels = facts.vocabulary.labels(c.one.inputs.to_vector<std::int64_t>());
  const StudyWords words = study_words(s.source_a, c.objective, labels, facts);
  const auto page = write_report(
      out,
      fmt::format("{} and {}: {}", s.source_a.run_name(), s.source_b.run_name(), words.objective),
      {pane_of(s.source_a, words, c.run.model, c.run.step, s.a,
               cut_heads(c.run.model, c.one, c.objective)),
       pane_of(s.source_b, words, b.model, b.step, s.b, cut_heads(b.model, c.one, c.objective))});
  made.push_back(page);
  progress.clear();
  Report report = comparison_report(c, b, b_folder, s, weights);
  report.files(folder->publish(made));
  return report;
}

}  // namespace heed
