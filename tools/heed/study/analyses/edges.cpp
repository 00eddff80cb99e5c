// Cuts of edges: a receiver reads the stream without the output of one component.
#include <fmt/format.h>

#include <algorithm>

#include "nn/study/edge_cuts.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

constexpr std::size_t kMeasuredCuts = 48;  // cuts of a table: the largest predictions

std::vector<nn::Edge> given_edges(const StudyContext& c) {
  return nn::parse_edges("--edge", c.text("edge"), c.model().options);
}

// Adds the title, a sentence and the table of cuts to a section.
void add_cuts(Section& s, const std::string& title, const std::vector<nn::Evidence>& rows,
              StudyContext& c) {
  const HeadSample& e = c.sample();
  const nn::Judgement j = c.judge(rows, e.run.objective);
  s.title = fmt::format("{}: change of L in {}, means over {}", title, effect_unit(e.run.objective),
                        e.sequences);
  s.sentences = {fmt::format(
      "L0H0:K:L1H1: the keys of L1H1 read the stream with the output of L0H0 replaced by {}. L is "
      "{}. gradient: the prediction through this edge alone.",
      e.replacement, e.objective_text)};
  s.tables = {evidence_table("cut", rows, j, c.has_marks(e), true)};
  s.tables[0].note = c.has_marks(e) ? agreement_text(j) : "";
  s.finding = finding_of(rows, j);
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
    const auto [sender, r] = nn::parse_edges("edge", rows[i].place, o)[0];
    const bool is_logits = r.kind == nn::Receiver::kLogits;
    n.edges.push_back({node(nn::component_name(sender), nn::stage_of(sender), sender.head),
                       node(is_logits ? "logits" : nn::component_name(nn::component_of(r)),
                            nn::stage_of(r, o), r.head),
                       rows[i].place, rows[i].effect.mean});
  }
  if (!n.edges.empty())
    s.pictures.push_back({"network", std::move(n),
                          "Nodes are heads, MLPs, the embedding and "
                          "the logits."});
}

Section cut_edges(StudyContext& c) {
  Section s{.key = "edges", .title = {}};
  const nn::EdgeCutter cutter(c.sample().run, c.sample().replaced);
  if (c.given("edge")) {
    add_cuts(s, "Cut edges", {cutter.cut(given_edges(c))}, c);
    return s;
  }
  const auto edges = nn::all_edges(c.model().options);
  const auto rows = cutter.largest(edges, kMeasuredCuts, c.counting("Cutting edges"));
  std::string title = "Edges";
  if (rows.size() < edges.size())
    title +=
        fmt::format(", those with the {} largest of {} predictions", rows.size(), edges.size());
  add_cuts(s, title, rows, c);
  add_network(s, rows, c);
  return s;
}

const Analysis kEdges{
    .key = "edges",
    .order = 40,
    .options = {{"edge", "EDGES", "cuts these edges together, such as L0H0:K:L1H1,embed:L1MLP"}},
    .group = "Edges",
    .notes = R"(L0H0:K:L1H1 is the edge from the output of L0H0 to the keys of L1H1 (Q: queries, V:
values). If it is cut, L1H1 alone reads the stream with the output of L0H0 replaced. embed is the
embedding, L0MLP an MLP, logits the output. Predictions are the gradients through this edge alone.
If the heads are measured, the edges with the largest predictions are, too.)",
    .by_default =
        [](StudyContext& c) {
          return c.heads.measured && c.model().options.norm != nn::NormPlacement::kPost;
        },
    .repeats = false,
    .check =
        [](const StudyContext& c) {
          if (!c.given("edge")) return;
          given_edges(c);
          nn::check_separable(c.model(), "edges");
        },
    .run = cut_edges};

}  // namespace
}  // namespace heed
