// Effects of edges: a receiver reads the stream with the output of one component replaced.
#include <fmt/format.h>

#include <map>

#include "nn/lab/study/edge_effects.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

std::vector<lab::Edge> given_edges(const StudyContext& c) {
  return lab::parse_edges("--edge", c.options.edge, c.model().options);
}

// All edges, with the predictions of their effects.
struct EdgePredictions {
  std::vector<lab::Edge> edges;
  std::vector<lab::Evidence> rows;  // by edge
};
EdgePredictions predict_edges(StudyContext& c) {
  const StudySample& e = c.sample();
  const bool fits = lab::attribution_work(e.run, e.donors, {.edges = true}) <= lab::kStudyWork;
  const lab::Attribution a = lab::attribute(e.run, fits ? e.donors : e.donors.first(),
                                            {.edges = true}, c.counting("Predicting edges"));
  EdgePredictions all{lab::all_edges(c.model().options), {}};
  for (std::size_t i = 0; i < all.edges.size(); ++i)
    all.rows.push_back({lab::edge_name(all.edges[i]),
                        {},
                        lab::effect_of(a.edges.path[i], e.run.counts).mean,
                        lab::effect_of(a.edges.gradient[i], e.run.counts).mean});
  return all;
}

// Marks the edges into values whose effect is above the ablation of the heads that read them.
void mark_off_distribution(std::vector<lab::Evidence>& rows, StudyContext& c) {
  const StudySample& e = c.sample();
  const nn::MultiHeadAttention::Options& o = c.model().options.attention;
  const auto replaced = lab::replacements(c.model(), e.donors);
  std::map<std::string, lab::Effect> ablations;  // by the first head
  for (lab::Evidence& row : rows) {
    const lab::Receiver r = lab::parse_edges("edge", row.place, c.model().options)[0].receiver;
    if (r.kind != lab::Receiver::kValue) continue;
    const std::string head = nn::head_name({r.layer, r.head});
    if (!ablations.contains(head)) {
      std::vector<nn::Component> group;
      for (Index i = 0; i < o.heads / o.kv_heads; ++i) group.emplace_back(r.layer, r.head + i);
      ablations[head] = lab::ablate(e.run, group, replaced);
    }
    const double above = std::abs(row.effect.mean) - std::abs(ablations[head].mean);
    row.off_distribution = above > 0 && !(above < 2 * row.effect.standard_error);
  }
}

// Places each component at its stage of the forward pass, and connects those whose edge counts.
void add_network(Section& s, const std::vector<lab::Evidence>& rows, const lab::Judgement& j,
                 const nn::Transformer::Options& o) {
  plot::Network n{.title = "Edges that count",
                  .caption =
                      "Width: the effect; dashed: L rises. Read by queries: blue; keys: orange; "
                      "values: green; MLPs and logits: gray."};
  const auto node = [&](const std::string& name, Index stage, Index row) {
    if (std::ranges::count(n.nodes, name, &plot::Network::Node::name) == 0)
      n.nodes.push_back({name, stage + 1, row});
    return name;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!j.counts[i] || rows[i].off_distribution) continue;
    const auto [sender, r] = lab::parse_edges("edge", rows[i].place, o)[0];
    const bool is_logits = r.kind == lab::Receiver::kLogits;
    n.edges.push_back({node(nn::component_name(sender), lab::stage_of(sender), sender.head),
                       node(is_logits ? "logits" : nn::component_name(lab::component_of(r)),
                            lab::stage_of(r, o), r.head),
                       rows[i].place, rows[i].effect.mean,
                       std::min<int>(r.kind, lab::Receiver::kMlp)});
  }
  if (!n.edges.empty())
    s.pictures.push_back(
        {"network", std::move(n), "Nodes are heads, MLPs, the embedding and the logits."});
}

Section edges_section(StudyContext& c) {
  const StudySample& e = c.sample();
  const EdgePredictions predicted = predict_edges(c);
  const lab::EdgeEffects measured(e.run, e.donors);
  Section s{.key = "edges",
            .title = fmt::format("Edges: effects on L in {}, on {}", effect_unit(e.run.objective),
                                 e.sequences),
            .sentences = {fmt::format(
                "L0H0:K:L1H0: the keys of L1H0 read the stream with the output of L0H0 replaced by "
                "that on another sequence. L is {}. path, gradient: predictions of the effect.",
                e.objective)}};
  if (!c.options.edge.empty()) {
    const std::vector<lab::Edge> together = given_edges(c);
    lab::Evidence set{.place = {}, .effect = measured.effect(together), .path = 0, .gradient = 0};
    for (const lab::Edge& edge : together) {
      const auto at = std::ranges::find(predicted.edges, edge) - predicted.edges.begin();
      const lab::Evidence& row = predicted.rows[std::size_t(at)];
      set.place += (set.place.empty() ? "" : ", ") + row.place;
      set.path += row.path, set.gradient += row.gradient;
    }
    s.tables = {evidence_table("edges", {set}, lab::judge({set}, c.smallest()))};
    s.answers = {fmt::format("With {} replaced together, L changes by {}{}, on {}.", set.place,
                             effect_text(set.effect), accuracy_text(set.effect), e.sequences)};
    return s;
  }
  const std::vector<std::size_t> order = affordable(
      c, "edges", predicted.rows, [&](std::size_t i) { return measured.work(predicted.edges[i]); });
  std::vector<lab::Evidence> rows;
  const auto progress = c.counting("Measuring edges");
  for (const std::size_t i : order) {
    rows.push_back(predicted.rows[i]);
    rows.back().effect = measured.effect({predicted.edges[i]});
    progress(std::ssize(rows), std::ssize(order));
  }
  mark_off_distribution(rows, c);
  const lab::Judgement j = lab::judge(rows, c.smallest());
  if (const std::string text = agreement_text(j); !text.empty()) s.sentences.push_back(text);
  s.tables = {evidence_table("edge", rows, j)};
  s.measured = measured_text(rows.size(), predicted.rows.size()) + ", on " + e.sequences;
  s.sentences.push_back(fmt::format("Effects: {}.", s.measured));
  add_network(s, rows, j, c.model().options);
  return s;
}

}  // namespace

const Analysis kEdges{
    .key = "edges",
    .advice = "add --edge",
    .asked = [](const StudyOptions& o) { return !o.edge.empty(); },
    .by_default =
        [](StudyContext& c) {
          return c.components() && c.model().options.norm != nn::NormPlacement::kPost &&
                 !c.sample().donors.rows.empty();
        },
    .check =
        [](StudyContext& c) {
          if (c.options.edge.empty()) return;
          given_edges(c);
          lab::check_separable(c.model(), "edges");
          if (c.sample().donors.rows.empty())
            usage_error("--edge needs other sequences: {}", c.sample().without_donors);
        },
    .run = edges_section};

}  // namespace heed
