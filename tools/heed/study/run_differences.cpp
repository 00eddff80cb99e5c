#include "tools/heed/study/run_differences.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "nn/run/first_difference.h"
#include "nn/study/matching.h"
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
  bool equal_start;                    // the runs begin with equal weights
  std::vector<nn::HeadMatch> matches;  // by patterns, unless equal_start
  nn::Study difference;                // B minus A
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

// Returns which heads correspond to each other, as sentences.
std::string matches_text(const StudiedPair& s) {
  if (s.equal_start)
    return "Both runs begin with equal weights, so heads with the same number correspond.";
  std::vector<std::string> close, apart;
  for (const nn::HeadMatch& m : s.matches) {
    if (!m.b) continue;
    (m.is_close ? close : apart)
        .push_back(
            fmt::format("{} ~ {} ({:.2f})", nn::head_name(m.a), nn::head_name(*m.b), m.cosine));
  }
  std::string text =
      "Heads of A and B are matched by the cosine of their mean attention patterns: " +
      (close.empty() ? "none is close" : heed::join(close, ", ")) + ".";
  if (!apart.empty()) text += " Not subtracted, below 0.7: " + heed::join(apart, ", ") + ".";
  return text;
}

Files draw_grid(const std::filesystem::path& file, plot::HeatmapGrid grid, const StudiedPair& s) {
  grid.row_labels = grid.col_labels = s.a.texts.tokens;
  grid.masked = "hidden by the mask";
  return write_picture(file, grid, s.a.source,
                       fmt::format("Run A is {}, run B is {}. L is {}. {}", s.a.folder(),
                                   s.b.folder(), s.a.texts.objective, matches_text(s)),
                       {{"Run B", s.b.source.run_name()}, {"Weights B", s.b.source.weights}});
}

std::string runs_text(const StudiedPair& s) {
  return fmt::format("A: {}; B: {}.", s.a.source.run_name(), s.b.source.run_name());
}

// Returns the title of the panel of a match: "L1H0", or "L1H0 ~ L1H1" for heads of other numbers.
std::string title_of(const nn::HeadMatch& m) {
  const std::string name = nn::head_name(m.a);
  return !m.b || *m.b == m.a ? name : fmt::format("{} ~ {}", name, nn::head_name(*m.b));
}

// Draws the attention weights of matched heads side by side, with a row of panels for each layer.
Files draw_both(const std::filesystem::path& out, const StudiedPair& s) {
  const auto grid_of = [](const nn::Study& study) {
    return heads_grid(study.by_layer(&nn::LayerStudy::pattern),
                      study.by_layer(&nn::LayerStudy::scores));
  };
  plot::HeatmapGrid grid = grid_of(s.study_a);
  const std::vector<plot::Panel> of_a = std::move(grid.panels), of_b = grid_of(s.study_b).panels;
  grid.panels.clear();
  const auto panel = [&](const std::vector<plot::Panel>& panels, const nn::Study& study,
                         const nn::HeadIndex& h, const char* run) {
    const std::size_t heads = study.heads.size() / study.layers.size();
    grid.panels.push_back(panels[std::size_t(h.layer) * heads + std::size_t(h.head)]);
    grid.panels.back().title += run;
  };
  for (const nn::HeadMatch& m : s.matches) {
    if (!m.b) continue;
    panel(of_a, s.study_a, m.a, ", run A");
    panel(of_b, s.study_b, *m.b, ", run B");
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
  plot::HeatmapGrid grid = difference_grid(s.difference, quantity, s.matches);
  grid.scale = plot::ColorScale::kDiverging;
  grid.title = fmt::format("{}: run B minus run A", quantity.picture.value_name);
  grid.caption = runs_text(s) + " Orange: larger in B; blue: larger in A.";
  grid.limit = largest_magnitude(grid);
  grid.value_name = "run B - run A";
  return draw_grid(out / fmt::format("{}_difference.png", quantity.picture.file), std::move(grid),
                   s);
}

// ---- numbers

// A head of run A, the head of run B that corresponds to it, and their reports. A pointer is null
// if the run has no such head.
struct HeadPair {
  const nn::HeadReport *a, *b;
  bool is_close;  // B - A has a meaning

  const nn::HeadReport& any() const { return a ? *a : *b; }
  // Returns the value of `q` in A, in B, and their difference. A value is NaN if it is unknown.
  std::array<double, 3> values(const nn::HeadQuantity& q) const {
    const double x = a ? (*a)[q.quantity] : NAN, y = b ? (*b)[q.quantity] : NAN;
    return {x, y, is_close ? y - x : NAN};
  }
  // Returns "L1H0", or "L1H0 ~ L1H1" for heads with other numbers.
  std::string name() const {
    if (!a || !b || a->head == b->head) return nn::head_name(any());
    return nn::head_name(*a) + " ~ " + nn::head_name(*b);
  }
};

// Returns all heads of A with their matches, and then the heads of B without a match.
std::vector<HeadPair> head_pairs(const StudiedPair& s) {
  std::vector<HeadPair> pairs;
  std::vector<nn::HeadIndex> matched;
  for (const nn::HeadMatch& m : s.matches) {
    pairs.push_back({&s.study_a.head(m.a.layer, m.a.head),
                     m.b ? &s.study_b.head(m.b->layer, m.b->head) : nullptr, m.is_close});
    if (m.b) matched.push_back(*m.b);
  }
  for (const nn::HeadReport& h : s.study_b.heads)
    if (std::ranges::count(matched, nn::HeadIndex(h)) == 0) pairs.push_back({nullptr, &h, false});
  return pairs;
}

Value head_of(const nn::HeadReport* report) { return report ? Value(report->head) : Value(); }

constexpr Column kHeadDifferences[] = {{"layer"}, {"head"}, {"head_b"},    {"quantity"},
                                       {"a"},     {"b"},    {"difference"}};
// Returns the table of compare.csv: one row for each head and quantity.
Table head_differences(const StudiedPair& s) {
  Table table(kHeadDifferences);
  for (const HeadPair& pair : head_pairs(s))
    for (const nn::HeadQuantity& q : nn::head_quantities()) {
      if (q.source != q.kStudy) continue;
      const auto [a, b, difference] = pair.values(q);
      table.add({pair.any().layer, head_of(pair.a), head_of(pair.b), q.name, a, b, difference});
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
    for (const HeadPair& pair : head_pairs(s)) {
      const auto [a, b, difference] = pair.values(q);
      table.add({pair.name(), a, b, difference});
    }
  }
}

constexpr Column kHeadPair[] = {{"layer"}, {"head"}, {"head_b"}, {"a"}, {"b"}};
Value heads_json(const StudiedPair& s) {
  const auto numbers = [](const nn::HeadReport* h) {
    if (!h) return Value();
    Value json = Value::object();
    for (const nn::HeadQuantity& q : nn::head_quantities())
      if (q.source == q.kStudy) json.append(std::string(q.name), (*h)[q.quantity]);
    return json;
  };
  Table heads(kHeadPair);
  for (const HeadPair& pair : head_pairs(s))
    heads.add(
        {pair.any().layer, head_of(pair.a), head_of(pair.b), numbers(pair.a), numbers(pair.b)});
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
    const std::string before =
        steps.size() == 1 ? "" : fmt::format("step {} is equal and ", steps[steps.size() - 2]);
    return fmt::format(
        "weights: of the steps that both runs saved, {}step {} is different; for example {} {}: "
        "{:.9g} and {:.9g}",
        before, steps.back(), d->tensor, index, d->a, d->b);
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
  report.line("{}", matches_text(s));
  add_score_tables(report, s);
  return report;
}

// Returns sequences of run A's task that both models can read, [B, T].
nn::Tensor sequences_of_both(const Subject& a, const Subject& b) {
  if (!a.has_sequences) return a.sequence.inputs;
  constexpr std::int64_t kSequences = 32;
  const nn::Task& task = *a.run->task;
  const nn::Tensor inputs = task.evaluation(0, std::min(kSequences, task.evaluation_size())).inputs;
  return slice(inputs, 1, 0, std::min(inputs.size(1), b.info().context));
}

}  // namespace

plot::HeatmapGrid difference_grid(const nn::Study& difference, const nn::MapQuantity& quantity,
                                  const std::vector<nn::HeadMatch>& matches) {
  plot::HeatmapGrid grid = heads_grid(difference.by_layer(quantity.values),
                                      difference.by_layer(&nn::LayerStudy::scores));
  for (std::size_t i = 0; i < grid.panels.size(); ++i)
    grid.panels[i].title = title_of(matches[i]) + (matches[i].is_close ? "" : ", no match");
  return grid;
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
  StudiedPair s{a, b, a.study(), b.study(), false, {}, {}};
  s.equal_start = nn::equal_at_start(a.run->config, *a.run->task, b.run->config, *b.run->task);
  s.matches = nn::match_heads(a.model(), b.model(), sequences_of_both(a, b), s.equal_start);
  s.difference = nn::difference_of(s.study_a, s.study_b, s.matches);
  progress.at_work("Comparing weights");
  const auto difference = compared_weights(a, b);
  progress.at_work("Drawing pictures");
  Files files = {staging / "compare.csv"};
  autograd::write_file(files[0].string(), std::string_view(to_csv(head_differences(s))));
  append(files, draw_both(staging, s));
  for (const nn::MapQuantity& q : nn::map_quantities())
    if (!q.picture.file.empty()) append(files, draw_difference(staging, s, q));
  nn::Json page = pane_data({pane_of(a, s.study_a), pane_of(b, s.study_b)});
  page.update(nn::Json::object({{"title", fmt::format("{} and {}: {}", a.source.run_name(),
                                                      b.source.run_name(), a.texts.objective)},
                                {"summary", std::vector<std::string>{matches_text(s)}}}));
  files.push_back(write_page(staging, std::move(page)));
  progress.clear();
  Report report = comparison_report(s, difference);
  report.files(folder->publish(files));
  return report;
}

}  // namespace heed
