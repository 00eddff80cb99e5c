// Cuts of edges: one receiver reads the stream without the output of one component.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/heed/study/path_evidence.h"

namespace heed {
namespace {

// Parses the edges of --edge. An edge has one receiver.
std::vector<nn::Path> given_edges(const StudyContext& c) {
  const auto paths = nn::parse_paths("--edge", c.text("edge"), c.model().options);
  for (const nn::Path& p : paths)
    if (p.receivers.size() > 1)
      usage_error("--edge: '{0}' is a path through several receivers; use --path {0}",
                  nn::path_name(p));
  return paths;
}

void check_edges(const StudyContext& c) {
  if (c.given("edges-into"))
    nn::parse_receivers("--edges-into", c.text("edges-into"), c.model().options);
  if (c.given("edge")) given_edges(c);
  if (c.given("edges-into") || c.given("edge") || c.flag("through-mlps")) check_has_edges(c);
}

// Places each component at its stage of the forward pass, and connects those whose edge counts.
plot::Network network_of(const std::vector<nn::Evidence>& rows, const nn::Judgement& j,
                         const StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
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
  return n;
}

Section cut_edges(StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
  Section s{.key = "edges", .title = "Edges"};
  const nn::PathCutter cutter = path_cutter(c);
  if (c.given("edge")) add_cuts(s, "Cut edges", {cutter.cut(given_edges(c))}, c, "");
  if (c.given("edge") && !c.given("edges-into")) return s;
  const std::string into = c.given("edges-into") ? c.text("edges-into") : "all";
  const auto paths = nn::edges_into(nn::parse_receivers("--edges-into", into, o), o);
  const auto rows = cutter.largest(paths, kMeasuredCuts, c.counting("Cutting edges"));
  std::string title = into == "all" ? "Edges" : "Edges into " + into;
  if (rows.size() < paths.size())
    title +=
        fmt::format(", those with the {} largest of {} predictions", rows.size(), paths.size());
  add_cuts(s, title, rows, c, "edges");
  plot::Network network = network_of(rows, c.judge(rows, c.sample().run.objective), c);
  if (!network.edges.empty())
    s.pictures.push_back({"network", std::move(network),
                          "Nodes are heads, MLPs, the embedding and "
                          "the logits."});
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
        [](StudyContext& c) {
          return c.heads.measured && !c.given("path") &&
                 c.model().options.norm != nn::NormPlacement::kPost;
        },
    .repeats = false,
    .pictures = {"edges", "network"},
    .check = check_edges,
    .run = cut_edges};

}  // namespace
}  // namespace heed
