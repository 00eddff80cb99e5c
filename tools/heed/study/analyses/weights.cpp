// Circuits from the weights (--circuits): maps of heads and of pairs of heads, and composition
// scores. They need no sequence. The tables also contain measured effects of edges between heads.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "nn/io/safetensors.h"
#include "nn/study/circuits.h"
#include "nn/study/path_cuts.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {
namespace {

// Sentences that state what the maps leave out.
constexpr const char* kMapsLeaveOut =
    "Left out: the division of the final norm, MLPs, and what other layers write into the stream. "
    "Learned or sinusoidal positions are replaced by their mean.";

constexpr std::size_t kLargest = 10;        // number of the largest entries of a map
constexpr std::size_t kPairMaps = 256;      // number of pairs whose composed maps are computed
constexpr std::size_t kDrawnPairs = 12;     // composed maps that are drawn and stored
constexpr std::size_t kMeasuredEdges = 64;  // number of edges that are measured

// Maps of one kind, one for each head or pair, and the texts of their picture.
struct Maps {
  const char* key;  // name of the picture and of the arrays
  const char* title;
  const char* caption;
  const char* row;  // what a row is
  const char* column;
  const char* value;
  std::vector<std::pair<std::string, nn::FactoredMap>> maps = {};  // by the title of a panel
};

// All maps, and the curves of the heads.
struct WeightMaps {
  Maps qk{"qk",          "QK maps", "Score of a query's token with a key's token.", "query's token",
          "key's token", "score"};
  Maps ov{"ov",    "OV maps", "Logits that a head adds if it reads a token.", "token that is read",
          "logit", "logit"};
  Maps composed{"composed",
                "Composed maps",
                "The first pairs of the table. L0H1:K:L1H0: L1H0 reads L0H1 in its keys. K and Q: "
                "scores by query's token (row) and key's token. V: logits by token that is read "
                "(row).",
                "token",
                "token",
                "score or logit"};
  Maps positions{"positions",
                 "QK maps of positions",
                 "Score of a query's position with a key's position, for the mean token.",
                 "query's position",
                 "key's position",
                 "score"};
  std::vector<nn::DistanceCurve> curves = {};
};

// A pair of heads: its composition score, its composed map, and the edge between them.
struct PairCircuit {
  nn::CompositionScore score;
  std::string name;                       // of the edge, such as "L0H1:K:L1H0"
  std::optional<nn::Evidence> edge = {};  // measured on sequences of the task; only for some pairs
  nn::FactoredMap map = {};               // undefined if it was not computed
  nn::MapSummary summary = {NAN, NAN};    // of `map`

  // Returns a positive number if the score is above the mean score of random weights.
  double above_random() const { return score.score - score.random_mean; }
};

// ---- pairs of heads

// Measures those edges between heads that have the largest predictions, on HeadStudy::sample.
void measure_edges(std::vector<PairCircuit>& pairs, const StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
  std::vector<nn::Path> edges = nn::edges_into(nn::parse_receivers("edges", "all", o), o);
  std::erase_if(edges, [](const nn::Path& e) {
    return e.sender.kind != nn::Component::kHead || e.receivers[0].kind >= nn::Receiver::kMlp;
  });
  const HeadSample& sample = *c.heads.sample;
  const auto cuts = nn::PathCutter(sample.run, sample.replaced, false)
                        .largest(edges, kMeasuredEdges, c.counting("Cutting edges"));
  for (PairCircuit& p : pairs) {
    const auto& [a, b, kind, score, random] = p.score;
    const nn::Path edge{a, {nn::shared_receiver({kind, b.layer, b.head}, o)}};
    const auto cut = std::ranges::find(cuts, nn::path_name(edge), &nn::Evidence::place);
    if (cut != cuts.end()) p.edge = *cut;
  }
}

// Returns the pairs by the measured effect, then by above_random().
std::vector<PairCircuit> pairs_of(const nn::Circuits& circuits, const StudyContext& c,
                                  std::optional<std::int64_t> distance) {
  std::vector<PairCircuit> pairs;
  for (const nn::CompositionScore& s : circuits.composition_scores())
    pairs.push_back({s, nn::path_name({s.a, {{s.kind, s.b.layer, s.b.head}}})});
  if (c.heads.sample && !pairs.empty()) measure_edges(pairs, c);
  std::ranges::stable_sort(pairs, std::greater{}, [](const PairCircuit& p) {
    const double above = std::isnan(p.above_random()) ? -HUGE_VAL : p.above_random();
    return std::pair(p.edge ? std::abs(p.edge->effect.mean) : -1, above);  // NaN: a head of zeros
  });
  for (std::size_t i = 0; i < std::min(pairs.size(), kPairMaps); ++i) {
    PairCircuit& p = pairs[i];
    p.map = circuits.composed(p.score.kind, p.score.a, p.score.b, distance);
    p.summary = summarize(p.map, circuits.options().classes);
  }
  return pairs;
}

Table table_of_pairs(const std::vector<PairCircuit>& pairs, const StudyContext& c,
                     const std::string& over_distances) {
  Table table({{"a", "a"},
               {"b", "b"},
               {"kind", "kind"},
               {"effect", "effect", "", "{:+.3g}"},
               {"standard_error", "error", "", "{:.2g}", 2},
               {"predicted", "predicted", "", "{:+.3g}"},
               {"score", "score", "", "{:.4f}", 1},
               {"random_mean", "random", "", "{:.4f}", 3},
               {"above_random", "above random", "", "{:+.4f}"},
               {"matching", "matching", "", "{:.3f}"},
               {"matching_diagonal", "diagonal", "", "{:.3f}"}},
              "Pairs of heads: measured edges and composition scores", 24);
  table.note =
      "b reads the output of a in its queries (Q), keys (K) or values (V). score: a Frobenius "
      "norm, 0 to 1; random: its mean over 100 draws of the same shapes. matching and diagonal: "
      "those of the composed map; for V, OV copying and OV diagonal. A score states what the "
      "weights allow, not what the model does.";
  if (c.heads.sample)
    table.note += fmt::format(
        " effect: the change of L on {} if b alone reads the stream with the output of a replaced "
        "by its mean; predicted: by the gradient. The table is sorted by the effect.",
        c.heads.sample->sequences);
  if (!over_distances.empty())
    table.note += fmt::format(" Composed maps of Q and K are scores{}.", over_distances);
  if (pairs.size() > kPairMaps)
    table.note += fmt::format(" The maps of the first {} pairs are computed.", kPairMaps);
  for (const PairCircuit& p : pairs) {
    std::vector<Value> row{nn::head_name(p.score.a), nn::head_name(p.score.b),
                           std::string(1, "QKV"[p.score.kind])};
    if (p.edge)
      row.insert(row.end(),
                 {p.edge->effect.mean, p.edge->effect.standard_error, p.edge->predicted()});
    row.resize(6);
    row.insert(row.end(), {p.score.score, p.score.random_mean, p.above_random(),
                           p.summary.eigenvalues, p.summary.diagonal});
    table.add(std::move(row));
  }
  return table;
}

// ---- heads

// Returns the maps of heads; those of pairs are missing.
WeightMaps maps_of(const nn::Circuits& circuits, const std::vector<nn::HeadIndex>& heads,
                   std::int64_t distance) {
  const nn::Transformer::Options& o = circuits.options();
  WeightMaps m;
  for (const nn::HeadIndex& h : heads) {
    m.qk.maps.emplace_back(nn::head_name(h), circuits.qk(h, distance));
    m.ov.maps.emplace_back(nn::head_name(h), circuits.ov(h));
    if (!are_relative(o.positions) && o.context <= 4096)
      m.positions.maps.emplace_back(nn::head_name(h), circuits.positions(h));
    m.curves.push_back(circuits.curve(h));
  }
  return m;
}

Table table_of_heads(const nn::Circuits& circuits, const std::vector<nn::HeadIndex>& heads,
                     const WeightMaps& m, const std::string& at_distance) {
  Table table({{"layer"},
               {"head"},
               {"", "head"},
               {"matching", "matching", "", "{:.3f}"},
               {"matching_diagonal", "diagonal", "", "{:.3f}"},
               {"ov_copying", "OV copying", "", "{:.3f}"},
               {"ov_diagonal", "OV diagonal", "", "{:.3f}"},
               {"slope", "slope"},
               {"curve_maximum", "peak distance"},
               {"curve"},
               {"curve_deviation"}},
              "Heads, from their weights");
  table.note = fmt::format(
      "matching: the sum of the eigenvalues of the QK map{} divided by the sum of their "
      "magnitudes; diagonal: the share of tokens whose largest score is with themselves. OV "
      "copying and OV diagonal: the same of the OV map, from the token that is read to the logits. "
      "OV copying can be high although a head does not copy, so no conclusion rests on it alone. "
      "Heads after layer 0 also read what earlier heads write; see the composed maps.",
      at_distance);
  if (circuits.options().attention.rope)
    table.note += " peak distance: the distance in tokens at which the mean score is largest.";
  const std::int64_t classes = circuits.options().classes;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const nn::MapSummary of_qk = summarize(m.qk.maps[i].second, classes),
                         of_ov = summarize(m.ov.maps[i].second, classes);
    table.add({heads[i].layer, heads[i].head, nn::head_name(heads[i]), of_qk.eigenvalues,
               of_qk.diagonal, of_ov.eigenvalues, of_ov.diagonal, circuits.slope(heads[i]),
               m.curves[i].maximum(), m.curves[i].mean, m.curves[i].deviation});
  }
  return table;
}

// Returns the largest entries of maps that are too large to be shown: QK, then OV, of each head.
Table largest_entries(const Maps& qk, const Maps& ov, const std::vector<std::string>& tokens) {
  Table table(
      {{"map", "map"}, {"row", "row"}, {"column", "column"}, {"value", "value", "", "{:.4g}"}},
      "Largest entries of the maps");
  table.note = fmt::format(
      "The maps are too large for pictures, arrays and the page. Rows are the query's token (QK) "
      "or the token that is read (OV), columns the key's token or the logit. The {} largest "
      "magnitudes of each map.",
      kLargest);
  for (std::size_t i = 0; i < qk.maps.size(); ++i)
    for (const auto& [kind, of] : {std::pair{" QK", &qk}, std::pair{" OV", &ov}})
      for (const nn::MapEntry& e : largest_entries(of->maps[i].second, kLargest))
        table.add({of->maps[i].first + kind, tokens[std::size_t(e.row)],
                   tokens[std::size_t(e.column)], e.value});
  return table;
}

// ---- arrays and pictures

// Returns a map as a square matrix, float32. Columns of tokens that are not logits are -inf.
nn::Tensor square(const nn::FactoredMap& map) {
  const nn::Tensor full = to(map.full(), autograd::float32);
  const nn::Tensor rest = autograd::full({full.size(0), full.size(0) - full.size(1)}, -HUGE_VAL);
  return autograd::cat({full, rest}, 1);
}

void save_arrays(const autograd::PathAt& file, const std::string& run,
                 const std::vector<nn::HeadIndex>& heads, const WeightMaps& m) {
  std::map<std::string, std::vector<nn::Tensor>> of_layer;  // by name, one tensor for each head
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const auto add = [&](std::string_view name, const nn::Tensor& x) {
      of_layer[nn::block_site(heads[i].layer, name)].push_back(x);
    };
    for (const Maps* maps : {&m.qk, &m.ov, &m.positions})
      if (!maps->maps.empty()) add(maps->key, maps->maps[i].second.full());
    const auto count = std::ssize(m.curves[i].mean);
    if (count == 0) continue;
    add("curve", autograd::from_data(m.curves[i].mean, {count}));
    add("curve_deviation", autograd::from_data(m.curves[i].deviation, {count}));
  }
  std::vector<nn::NamedTensor> arrays;
  for (const auto& [name, maps] : of_layer) arrays.push_back({name, autograd::stack(maps, 0)});
  for (const auto& [name, map] : m.composed.maps) arrays.push_back({name, map.full()});
  nn::save_safetensors(
      file, arrays,
      {{"run", run},
       {"left_out", kMapsLeaveOut},
       {"schema",
        "qk [head, query's token, key's token], ov [head, token that is read, logit], positions "
        "[head, query's position, key's position], curve and curve_deviation [head, distance], "
        "L0H1:K:L1H0 [row, column]: a composed map"}});
}

// Adds a picture of maps. Adds nothing if there are none.
void add_picture(Section& section, const Maps& m, const std::vector<std::string>& tokens,
                 std::int64_t heads, const std::string& at_distance) {
  // Larger maps are only drawn, and are in the array file.
  constexpr int kLongest = 128;
  constexpr std::size_t kMostNumbers = 100'000;
  if (m.maps.empty()) return;
  const bool is_composed = m.key == std::string_view("composed");
  plot::HeatmapGrid grid{.title = m.title + at_distance + ", from the weights",
                         .caption = m.caption,
                         .gray = "not a logit",
                         .panel_columns = is_composed ? 4 : int(heads),
                         .row_labels = tokens,
                         .row_axis = m.row,
                         .col_axis = m.column,
                         .value_name = m.value,
                         .scale = plot::ColorScale::kDiverging,
                         .root = !is_composed,
                         .by_panel = is_composed};
  for (const auto& [title, map] : m.maps) {
    const nn::Tensor values = square(map);
    grid.panels.push_back(
        {title, int(values.size(0)), int(values.size(1)), values.to_vector<float>()});
  }
  if (!grid.by_panel) grid.limit = largest_magnitude(grid);
  const plot::Panel& first = grid.panels[0];
  const bool is_large =
      first.rows > kLongest || grid.panels.size() * first.values.size() > kMostNumbers;
  if (tokens.empty())
    for (int i = 0; i < first.rows; ++i) grid.row_labels.push_back(std::to_string(i));
  grid.col_labels = grid.row_labels;
  section.pictures.push_back({m.key, std::move(grid), kMapsLeaveOut, is_large});
}

// Returns a chart of the mean score of each head by distance, with a band of one deviation.
Picture curves_picture(const std::vector<nn::HeadIndex>& heads,
                       const std::vector<nn::DistanceCurve>& curves) {
  plot::ChartStack stack{.title = "Scores by distance, from the weights",
                         .caption = "Mean over all pairs of tokens. Band: one standard deviation."};
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const auto& [mean, deviation] = curves[i];
    std::vector<double> distances(mean.size());
    std::iota(distances.begin(), distances.end(), 0);
    plot::Series line = head_line(heads[i], distances, mean);
    for (std::size_t d = 0; d < mean.size(); ++d)
      line.low.push_back(mean[d] - deviation[d]), line.high.push_back(mean[d] + deviation[d]);
    if (heads[i].head == 0)
      stack.panels.push_back({.title = fmt::format("score, layer {}", heads[i].layer),
                              .x_name = "tokens from the key to the query",
                              .height = 220});
    stack.panels.back().series.push_back(std::move(line));
  }
  name_heads(stack, heads.back());
  return {"distance_curves", std::move(stack), kMapsLeaveOut};
}

std::optional<std::int64_t> given_distance(const StudyContext& c) {
  if (!c.given("distance")) return {};
  const nn::Transformer::Options& o = c.model().options;
  if (!o.attention.rope)
    usage_error("--distance: has an effect only for runs with --positions rope; leave it out");
  const std::int64_t distance = *heed::parse_number<std::int64_t>(c.text("distance"));
  if (distance >= o.context)
    usage_error("--distance: needs 0 to {}, got {}", o.context - 1, distance);
  return distance;
}

Section circuits_of_weights(StudyContext& c) {
  const auto distance = given_distance(c);
  const nn::Circuits circuits(c.model());
  c.progress.at_work("Computing maps");
  const nn::Transformer::Options& o = c.model().options;
  const bool rope = o.attention.rope;
  // "", or " at distance 3" with RoPE; composed maps: " at distance 3", or the mean.
  const std::string at_distance = rope ? fmt::format(" at distance {}", distance.value_or(0)) : "";
  const std::string over_distances =
      distance || !rope || o.context == 1
          ? at_distance
          : fmt::format(", mean over distances 1 to {}", o.context - 1);
  std::vector<std::int64_t> ids(std::size_t(o.vocab));
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<std::string> tokens = c.subject.info().vocabulary.labels(ids);

  const auto heads = nn::all_heads(o.layers, o.attention.heads);
  WeightMaps m = maps_of(circuits, heads, distance.value_or(0));
  const std::vector<PairCircuit> pairs = pairs_of(circuits, c, distance);
  Section section{
      .key = "weights", .title = "Circuits from the weights", .sentences = {kMapsLeaveOut}};
  section.tables = {table_of_heads(circuits, heads, m, at_distance)};
  if (!pairs.empty()) section.tables.push_back(table_of_pairs(pairs, c, over_distances));
  section.finding = counted(std::ssize(heads), "head");

  // If the vocabulary has more than 4,096 tokens, or if the maps of all heads have more than 2^26
  // cells, only the largest entries of the maps are shown.
  if (o.vocab > 4096 || 2 * std::ssize(heads) * o.vocab * o.vocab > 1 << 26) {
    section.tables.push_back(largest_entries(m.qk, m.ov, tokens));
    m.qk.maps.clear(), m.ov.maps.clear();
  } else {
    for (std::size_t i = 0; i < std::min(pairs.size(), kDrawnPairs); ++i)
      m.composed.maps.emplace_back(pairs[i].name, pairs[i].map);
  }
  const autograd::PathAt file = c.folder->file("circuits.safetensors");
  section.files = {file.text()};
  save_arrays(file, c.subject.source.run_name(), heads, m);
  for (const Maps* maps : {&m.qk, &m.ov, &m.composed, &m.positions})
    add_picture(section, *maps, maps == &m.positions ? std::vector<std::string>() : tokens,
                o.attention.heads, maps == &m.qk ? at_distance : "");
  if (rope) section.pictures.push_back(curves_picture(heads, m.curves));
  return section;
}

const Analysis kWeights{
    .key = "weights",
    .order = 110,
    .options =
        {{"circuits", "",
          "maps of heads and pairs of heads from the weights; beside them the measured edges "
          "between heads"},
         {"distance", "N", "tokens from the key to the query, for the QK and composed maps of RoPE",
          "0; composed maps: the mean over all distances from 1 on", false}},
    .group = "Weights",
    .notes =
        R"(--circuits computes maps from the weights, beside the measured edges between heads: QK (scores of a token with another token), OV (logits
that a head adds if it reads a token), their compositions for pairs of heads, and composition scores.
It writes circuits.safetensors, pictures and report.html into the directory circuits of the run.)",
    .check = [](const StudyContext& c) { given_distance(c); },
    .run = circuits_of_weights};

}  // namespace
}  // namespace heed
