// Cuts of edges and paths: a receiver reads the stream without the output of one component.
#include <fmt/format.h>

#include <algorithm>

#include "nn/study/forward_passes.h"
#include "nn/study/path_cuts.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

constexpr std::size_t kMeasuredCuts = 48;  // cuts of a table: the largest predictions

// ---- options

std::vector<nn::Path> given_paths(const StudyContext& c, const std::string& option) {
  return nn::parse_paths("--" + option, c.text(option), c.model().options);
}

// Parses the edges of --edge. An edge has one receiver.
std::vector<nn::Path> given_edges(const StudyContext& c) {
  const auto paths = given_paths(c, "edge");
  for (const nn::Path& p : paths)
    if (p.receivers.size() > 1)
      usage_error("--edge: '{0}' is a path through several receivers; use --path {0}",
                  nn::path_name(p));
  return paths;
}

std::vector<nn::Receiver> given_receivers(const StudyContext& c) {
  const std::string into = c.given("edges-into") ? c.text("edges-into") : "all";
  return nn::parse_receivers("--edges-into", into, c.model().options);
}

bool has_edges(const StudyContext& c) { return c.model().options.norm != nn::NormPlacement::kPost; }

void check_cuts(const StudyContext& c) {
  given_receivers(c);
  if (c.given("edge")) given_edges(c);
  if (c.given("path") && c.text("path") != "all") given_paths(c, "path");
  const bool asked = c.given("edges-into") || c.given("edge") || c.given("path");
  if (asked || c.flag("through-mlps")) nn::check_separable(c.model(), "edges and paths");
  if (c.flag("through-mlps") && !c.model().options.mlp)
    usage_error("--through-mlps: this model does not have MLPs; leave out --through-mlps");
}

// ---- sections

// Adds cuts to a section: sentences, a table and, unless `file` is empty, a chart in FILE.png.
void add_cuts(Section& s, const std::string& title, const std::vector<nn::Evidence>& rows,
              StudyContext& c, const std::string& file) {
  const HeadSample& e = c.sample();
  const nn::Judgement j = c.judge(rows, e.run.objective);
  s.sentences = {fmt::format(
      "L0H0:K:L1H1: the keys of L1H1 read the stream with the output of L0H0 replaced by {}; only "
      "the last receiver of a path changes the run. L is {}. gradient: the prediction through this "
      "path alone.{}",
      e.replacement, e.objective_text,
      c.flag("through-mlps") ? " MLPs between the two are computed again." : "")};
  s.tables.push_back(evidence_table("cut", rows, j, c.has_marks(e), true));
  (s.tables.size() > 1 ? s.tables.back().title : s.title) = fmt::format(
      "{}: change of L in {}, means over {}", title, effect_unit(e.run.objective), e.sequences);
  s.tables.back().note = c.has_marks(e) ? agreement_text(j) : "";
  s.finding = finding_of(rows, j);
  if (file.empty()) return;
  plot::ChartStack chart = evidence_chart(rows, j);
  chart.title = title;
  chart.caption += " Means over " + e.sequences + ". L is " + e.objective_text + ".";
  s.pictures.push_back({file, std::move(chart),
                        "Each bar is the change of L if one receiver reads the stream with the "
                        "component's output replaced."});
}

// Places each component at its stage of the forward pass, and connects those whose edge counts.
void add_network(Section& s, const std::vector<nn::Evidence>& rows, StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
  const nn::Judgement j = c.judge(rows, c.sample().run.objective);
  plot::Network n{.title = "Edges that count",
                  .caption =
                      "Information flows from left to right. Width: the change of L if the "
                      "edge is cut. Blue: L falls; orange: L rises."};
  const auto node = [&](const std::string& name, std::int64_t stage, std::int64_t row) {
    if (std::ranges::count(n.nodes, name, &plot::Network::Node::name) == 0)
      n.nodes.push_back({name, stage + 1, row});
    return name;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!j.rows[i].counts) continue;
    const nn::Path path = nn::parse_paths("edge", rows[i].place, o)[0];
    const nn::Receiver& r = path.receivers[0];
    const bool is_logits = r.kind == nn::Receiver::kLogits;
    n.edges.push_back(
        {node(nn::component_name(path.sender), nn::stage_of(path.sender), path.sender.head),
         node(is_logits ? "logits" : nn::component_name(nn::component_of(r)), nn::stage_of(r, o),
              r.head),
         rows[i].place, rows[i].effect.mean});
  }
  if (!n.edges.empty())
    s.pictures.push_back({"network", std::move(n),
                          "Nodes are heads, MLPs, the embedding and "
                          "the logits."});
}

nn::PathCutter cutter_of(StudyContext& c) {
  const HeadSample& e = c.sample();
  return {e.run, e.replaced, c.flag("through-mlps")};
}

Section cut_edges(StudyContext& c) {
  Section s{.key = "edges", .title = "Edges"};
  const nn::PathCutter cutter = cutter_of(c);
  if (c.given("edge")) add_cuts(s, "Cut edges", {cutter.cut(given_edges(c))}, c, "");
  if (c.given("edge") && !c.given("edges-into")) return s;
  const auto edges = nn::edges_into(given_receivers(c), c.model().options);
  const auto rows = cutter.largest(edges, kMeasuredCuts, c.counting("Cutting edges"));
  const std::string into = c.text("edges-into");
  std::string title = into.empty() || into == "all" ? "Edges" : "Edges into " + into;
  if (rows.size() < edges.size())
    title +=
        fmt::format(", those with the {} largest of {} predictions", rows.size(), edges.size());
  add_cuts(s, title, rows, c, "edges");
  add_network(s, rows, c);
  return s;
}

Section cut_paths(StudyContext& c) {
  Section s{.key = "paths", .title = "Paths"};
  const nn::PathCutter cutter = cutter_of(c);
  if (c.text("path") != "all") {
    add_cuts(s, "Cut paths", {cutter.cut(given_paths(c, "path"))}, c, "");
    return s;
  }
  const auto paths = nn::paths_through_heads(c.model().options);
  const auto rows = cutter.largest(paths, kMeasuredCuts, c.counting("Cutting paths"));
  add_cuts(s,
           fmt::format("Paths through one head to the logits, those with the {} largest of {} "
                       "predictions",
                       rows.size(), paths.size()),
           rows, c, "paths");
  return s;
}

const Analysis kEdges{
    .key = "edges",
    .order = 40,
    .options =
        {{"edges-into", "RECEIVER",
          "cuts each edge into a head (L1H1), its keys (L1H1.K; Q, V), L1MLP, logits or all; "
          "measures the largest predictions",
          "all, if the heads are measured"},
         {"edge", "EDGES", "cuts these edges together, such as L0H0:K:L1H1,embed:L1MLP"},
         {"through-mlps", "",
          "cuts of edges and paths also change the MLPs between a component and its "
          "receiver",
          "", false}},
    .group = "Paths",
    .notes = R"(L0H0:K:L1H1 is the edge from the output of L0H0 to the keys of L1H1 (Q: queries, V:
values). If it is cut, L1H1 alone reads the stream with the output of L0H0 replaced. embed is the
embedding, L0MLP an MLP, logits the output. A path goes through several of them:
L0H0:K:L1H1:logits. Predictions are the gradients through this edge or path alone.)",
    .by_default =
        [](StudyContext& c) { return c.heads.measured && !c.given("path") && has_edges(c); },
    .repeats = false,
    .check = check_cuts,
    .run = cut_edges};

const Analysis kPaths{
    .key = "paths",
    .order = 50,
    .options =
        {{"path", "PATHS",
          "cuts these paths together, such as L0H0:K:L1H1:logits; all: each path through one "
          "head to the logits, the largest predictions"}},
    .group = "Paths",
    .run = cut_paths};

}  // namespace
}  // namespace heed
