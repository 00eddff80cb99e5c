#include "tools/heed/study/path_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/study/path_cuts.h"

namespace heed {
namespace {

constexpr std::size_t kMeasuredCuts = 48;  // cuts of a table, those with the largest predictions
constexpr std::size_t kShownCuts = 24;

// Returns the paths of --edge or --path. An edge has one receiver.
std::vector<nn::Path> given_paths(const std::string& option, const std::string& text,
                                  const nn::Transformer::Options& o) {
  const auto paths = nn::parse_paths(option, text, o);
  for (const nn::Path& p : paths)
    if (option == "--edge" && p.receivers.size() > 1)
      usage_error("--edge: '{0}' is a path through several receivers; use --path {0}",
                  nn::path_name(p));
  return paths;
}

std::string names_of(const std::vector<nn::Path>& paths) {
  std::vector<std::string> names;
  for (const nn::Path& p : paths) names.push_back(nn::path_name(p));
  return heed::join(names);
}

// Draws a bar for the effect of each cut, and a square for its prediction.
Files draw_cuts(const std::filesystem::path& file, const std::string& title,
                const std::vector<nn::PathCut>& cuts, const HeadSample& e, const Subject& s) {
  plot::LineChart bars{.x_name = "change of L", .series = {{}, {.points = true, .square = true}}};
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    bars.y_labels.push_back(names_of(cuts[i].paths));
    plot::Series &effects = bars.series[0], &predictions = bars.series[1];
    effects.x.push_back(cuts[i].effect.mean), effects.y.push_back(double(i));
    predictions.x.push_back(cuts[i].predicted.mean), predictions.y.push_back(double(i));
  }
  bars.height = 28 * int(cuts.size());
  plot::ChartStack stack{.title = title,
                         .caption = "Bars: measured. Squares: predicted. Means over " +
                                    e.sequences + ". L is " + e.objective_text + ".",
                         .panels = {std::move(bars)}};
  return write_picture(file, stack, s.source,
                       "Each bar is the change of L if one receiver reads the stream with the "
                       "component's output replaced.");
}

Table cut_rows(const std::string& title, const std::vector<nn::PathCut>& cuts, const HeadSample& e,
               const Subject& s, bool through_mlps) {
  std::vector<Column> columns{{"", "cut"},
                              {"", "effect", "", "{:+.3g}"},
                              {"", "error", "", "{:.2g}", 1},
                              {"", "predicted", "", "{:+.3g}"},
                              {"", "mark"}};
  Table t(columns);
  t.title = fmt::format("{}: change of L in {}, means over {}", title, effect_unit(e.run.objective),
                        e.sequences);
  std::vector<nn::EffectRow> rows;
  for (const nn::PathCut& c : cuts) rows.push_back(c.row());
  const double largest = nn::largest_effect(rows), smallest = s.smallest_effect(e.run.objective);
  for (const nn::PathCut& c : cuts)
    t.add({names_of(c.paths), c.effect.mean, c.effect.standard_error, c.predicted.mean,
           mark_value(c.row(), nn::floor_of(c.row(), largest, smallest))});
  t.note = fmt::format(
      "L0H0:K:L1H1: the keys of L1H1 read the stream with the output of L0H0 replaced by {}; only "
      "the last receiver of a path changes the run. L is {}. predicted: by the gradient through "
      "this path "
      "alone.{}{}",
      e.replacement, e.objective_text,
      through_mlps ? " MLPs between the two are computed again." : "",
      e.run.values.size() == 1 ? " One sequence gives no standard error and no marks."
      : s.predicts             ? " Marks as for heads."
                               : "");
  return t;
}

}  // namespace

std::vector<nn::Setting> path_settings(PathArguments& a) {
  return {nn::Setting("edges-into", a.edges_into, "RECEIVER",
                      "cuts each edge into a head (L1H1), its keys (L1H1.K; Q, V), L1MLP, logits "
                      "or all; measures the largest predictions")
              .shows("all, if the heads are measured"),
          nn::Setting("edge", a.edge, "EDGES",
                      "cuts these edges together, such as L0H0:K:L1H1,embed:L1MLP")
              .shows(""),
          nn::Setting("path", a.path, "PATHS",
                      "cuts these paths together, such as L0H0:K:L1H1:logits; all: each path "
                      "through one head to the logits, the largest predictions")
              .shows(""),
          {"through-mlps", a.through_mlps,
           "cuts of edges and paths also change the MLPs between a component and its receiver"}};
}

void check_paths(const PathArguments& a, const Command& c, const Subject& s) {
  const nn::Transformer::Options& o = s.model().options;
  const bool any = c.given("edges-into") || c.given("edge") || c.given("path");
  if (c.given("edges-into")) nn::parse_receivers("--edges-into", a.edges_into, o);
  if (c.given("edge")) given_paths("--edge", a.edge, o);
  if (c.given("path") && a.path != "all") given_paths("--path", a.path, o);
  if (any && o.norm == nn::NormPlacement::kPost)
    usage_error(
        "edges and paths: this model normalizes the stream after each sum (norm = post), "
        "so a receiver cannot read the output of one component alone");
  if (a.through_mlps && !o.mlp) usage_error("--through-mlps: this model does not have MLPs");
}

std::vector<Table> path_tables(const PathArguments& a, const HeadArguments& heads, const Command& c,
                               const Subject& s, const HeadStudy& study,
                               const std::filesystem::path& out, Progress& progress, Files& files) {
  const nn::Transformer::Options& o = s.model().options;
  const bool all_edges = !c.given("edges-into") && !c.given("edge") && !c.given("path");
  if (all_edges && (!study.measured || o.norm == nn::NormPlacement::kPost)) return {};
  const HeadSample e = effect_sample(study, heads, c, s);
  const nn::PathCutter cutter(e.run, e.replaced, a.through_mlps);
  std::vector<Table> tables;
  const auto largest = [&](const std::string& title, const char* picture,
                           const std::vector<nn::Path>& paths) {
    progress.at_work(fmt::format("Predicting the cuts of {} paths", paths.size()));
    auto cuts = cutter.largest(paths, kMeasuredCuts, [&](std::int64_t done, std::int64_t total) {
      progress.at_work(fmt::format("Cutting paths: {} of {} steps", done, total));
    });
    const std::string name = cuts.size() < paths.size()
                                 ? fmt::format("{}, those with the {} largest of {} predictions",
                                               title, cuts.size(), paths.size())
                                 : title;
    tables.push_back(cut_rows(name, cuts, e, s, a.through_mlps));
    tables.back().shown = kShownCuts;
    cuts.resize(std::min(cuts.size(), kShownCuts));
    append(files, draw_cuts(out / picture, name, cuts, e, s));
  };
  const auto together = [&](const char* title, const std::vector<nn::Path>& paths) {
    tables.push_back(cut_rows(title, {cutter.cut(paths)}, e, s, a.through_mlps));
  };
  if (all_edges || c.given("edges-into")) {
    const std::string into = all_edges ? "all" : a.edges_into;
    largest(into == "all" ? "Edges" : "Edges into " + into, "edges.png",
            nn::edges_into(nn::parse_receivers("--edges-into", into, o), o));
  }
  if (c.given("edge")) together("Cut edges", given_paths("--edge", a.edge, o));
  if (c.given("path") && a.path == "all")
    largest("Paths through one head to the logits", "paths.png", nn::paths_through_heads(o));
  else if (c.given("path"))
    together("Cut paths", given_paths("--path", a.path, o));
  return tables;
}

}  // namespace heed
