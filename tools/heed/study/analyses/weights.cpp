// Circuits from the weights (--circuits): maps of heads and of pairs of heads, and composition
// scores. They need no sequence. Beside them stand the measured edges between heads.
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

// The maps of a head and their numbers.
struct HeadCircuit {
  nn::HeadIndex head;
  nn::FactoredMap qk;  // at the chosen distance
  nn::FactoredMap ov;
  nn::MapSummary matching;  // of `qk`
  nn::MapSummary copying;   // of `ov`
  nn::DistanceCurve curve;
};

// A pair of heads: its composition score, its composed map, and the edge between them.
struct PairCircuit {
  nn::CompositionScore score;
  std::optional<nn::Evidence> edge;  // measured on sequences of the task; only for some pairs
  nn::FactoredMap map;               // undefined if it was not computed
  nn::MapSummary summary{NAN, NAN};  // of `map`

  // Returns the score minus that of random weights.
  double above_random() const { return score.score - score.random_mean; }
  // Returns the name of the edge, such as "L0H1:K:L1H0".
  std::string name() const;
};

// The circuits of a run.
struct CircuitStudy {
  const nn::Circuits& circuits;
  std::optional<std::int64_t> distance;  // value of --distance
  std::vector<std::string> tokens;       // labels of the vocabulary
  std::vector<HeadCircuit> heads;        // in the order of nn::all_heads()
  std::vector<PairCircuit> pairs;        // by the measured effect, then by above_random()
  std::string sequences;                 // on which edges were measured: "32 sequences of sort"

  const nn::Transformer::Options& model() const { return circuits.options(); }
  // Returns false above 4,096 tokens, and if the maps of all heads have more than 2^26 cells. Then
  // only the largest entries of the maps are shown.
  bool has_maps() const;
  // Returns " at distance 3" if the model has RoPE, and otherwise "".
  std::string at_distance() const;
  // Returns the distances of the K- and Q-composed maps as text: " at distance 3", ", mean over
  // distances 1 to 47", or "" without RoPE.
  std::string over_distances() const;
};

std::string PairCircuit::name() const {
  return fmt::format("{}:{}:{}", nn::head_name(score.a), nn::enum_name(score.kind),
                     nn::head_name(score.b));
}

bool CircuitStudy::has_maps() const {
  const std::int64_t n = model().vocab;
  return n <= 4096 && 2 * std::ssize(heads) * n * n <= 1 << 26;
}

std::string CircuitStudy::at_distance() const {
  return model().attention.rope ? fmt::format(" at distance {}", distance.value_or(0)) : "";
}

std::string CircuitStudy::over_distances() const {
  if (distance || !model().attention.rope || model().context == 1) return at_distance();
  return fmt::format(", mean over distances 1 to {}", model().context - 1);
}

constexpr std::size_t kLargest = 10;        // number of the largest entries of a map
constexpr std::size_t kPairMaps = 256;      // number of pairs whose composed maps are computed
constexpr std::size_t kMeasuredEdges = 64;  // number of edges that are measured

// Returns the edge that a composition score is about.
nn::Path edge_of(const nn::CompositionScore& c, const nn::Transformer::Options& model) {
  const auto kind = c.kind == nn::Composition::kQ   ? nn::Receiver::kQuery
                    : c.kind == nn::Composition::kK ? nn::Receiver::kKey
                                                    : nn::Receiver::kValue;
  return {c.a, {nn::shared_receiver({kind, c.b.layer, c.b.head}, model)}};
}

// Measures the edges between heads with the largest predictions on the default sequences.
void measure_edges(CircuitStudy& s, const HeadSample& sample, Progress& progress) {
  std::vector<nn::Path> edges;
  for (const PairCircuit& p : s.pairs)
    if (const nn::Path e = edge_of(p.score, s.model()); std::ranges::count(edges, e) == 0)
      edges.push_back(e);
  const auto cuts = nn::PathCutter(sample.run, sample.replaced, false)
                        .largest(edges, kMeasuredEdges, [&](std::int64_t done, std::int64_t total) {
                          progress.at_work(fmt::format("Cutting edges: {} of {}", done, total));
                        });
  for (const nn::Evidence& cut : cuts)
    for (PairCircuit& p : s.pairs)
      if (nn::path_name(edge_of(p.score, s.model())) == cut.place) p.edge = cut;
  s.sequences = sample.sequences;
}

CircuitStudy compute(const nn::Circuits& circuits, const nn::Transformer& model,
                     std::optional<std::int64_t> distance, const std::optional<HeadSample>& sample,
                     Progress& progress) {
  CircuitStudy s{circuits, distance, {}, {}, {}, {}};
  const std::int64_t classes = model.options.classes;
  for (const nn::HeadIndex& h :
       nn::all_heads(model.options.layers, model.options.attention.heads)) {
    const nn::FactoredMap qk = circuits.qk(h, distance.value_or(0)), ov = circuits.ov(h);
    s.heads.push_back(
        {h, qk, ov, summarize(qk, classes), summarize(ov, classes), circuits.curve(h)});
  }
  for (const nn::CompositionScore& score : nn::composition_scores(model))
    s.pairs.push_back({score, {}, {}});
  if (sample && !s.pairs.empty()) measure_edges(s, *sample, progress);
  std::ranges::stable_sort(s.pairs, std::greater{}, [](const PairCircuit& p) {
    const double above = std::isnan(p.above_random()) ? -HUGE_VAL : p.above_random();
    return std::pair(p.edge ? std::abs(p.edge->effect.mean) : -1, above);  // NaN: a head of zeros
  });
  for (std::size_t i = 0; i < std::min(s.pairs.size(), kPairMaps); ++i) {
    PairCircuit& p = s.pairs[i];
    p.map = circuits.composed(p.score.kind, p.score.a, p.score.b, distance);
    p.summary = summarize(p.map, classes);
  }
  return s;
}

// ---- tables

constexpr Column kHeadCircuit[] = {{"layer"},
                                   {"head"},
                                   {"", "head"},
                                   {"matching", "matching", "", "{:.3f}"},
                                   {"matching_diagonal", "diagonal", "", "{:.3f}"},
                                   {"ov_copying", "OV copying", "", "{:.3f}"},
                                   {"ov_diagonal", "OV diagonal", "", "{:.3f}"},
                                   {"slope", "slope"},
                                   {"curve_maximum", "peak distance"},
                                   {"curve"},
                                   {"curve_deviation"}};
constexpr Column kComposition[] = {{"a", "a"},
                                   {"b", "b"},
                                   {"kind", "kind"},
                                   {"effect", "effect", "", "{:+.3g}"},
                                   {"standard_error", "error", "", "{:.2g}", 2},
                                   {"predicted", "predicted", "", "{:+.3g}"},
                                   {"score", "score", "", "{:.4f}", 1},
                                   {"random_mean", "random", "", "{:.4f}", 3},
                                   {"above_random", "above random", "", "{:+.4f}"},
                                   {"matching", "matching", "", "{:.3f}"},
                                   {"matching_diagonal", "diagonal", "", "{:.3f}"}};
constexpr Column kEntry[] = {
    {"map", "map"}, {"row", "row"}, {"column", "column"}, {"value", "value", "", "{:.4g}"}};

void add_heads(Table& table, const CircuitStudy& s) {
  table.title = "Heads, from their weights";
  table.note = fmt::format(
      "matching: the sum of the eigenvalues of the QK map{} divided by the sum of their "
      "magnitudes; "
      "diagonal: the share of tokens whose largest score is with themselves. OV copying and OV "
      "diagonal: the same of the OV map, from the token that is read to the logits. OV copying can "
      "be high although a head does not copy, so no conclusion rests on it alone. Heads after "
      "layer 0 also read what earlier heads write; see "
      "the composed maps.",
      s.at_distance());
  if (s.model().attention.rope)
    table.note += " peak distance: the distance in tokens at which the mean score is largest.";
  for (const HeadCircuit& h : s.heads)
    table.add({h.head.layer, h.head.head, nn::head_name(h.head), h.matching.eigenvalues,
               h.matching.diagonal, h.copying.eigenvalues, h.copying.diagonal,
               s.circuits.slope(h.head), h.curve.maximum(), h.curve.mean, h.curve.deviation});
}

void add_compositions(Table& table, const CircuitStudy& s) {
  if (s.pairs.empty()) return;
  table.title = "Pairs of heads: measured edges and composition scores";
  table.shown = 24;
  table.note =
      "b reads the output of a in its queries (Q), keys (K) or values (V). score: a Frobenius "
      "norm, "
      "0 to 1; random: its mean over 100 draws of the same shapes. matching and diagonal: those of "
      "the composed map; for V, OV copying and OV diagonal. A score states what the weights allow, "
      "not what the model does.";
  if (!s.sequences.empty())
    table.note += fmt::format(
        " effect: the change of L on {} if b alone reads the stream with the output of a replaced "
        "by its mean; predicted: by the gradient. The table is sorted by the effect.",
        s.sequences);
  if (!s.over_distances().empty())
    table.note += fmt::format(" Composed maps of Q and K are scores{}.", s.over_distances());
  if (s.pairs.size() > kPairMaps)
    table.note += fmt::format(" The maps of the first {} pairs are computed.", kPairMaps);
  for (const PairCircuit& p : s.pairs)
    table.add({nn::head_name(p.score.a), nn::head_name(p.score.b), nn::enum_name(p.score.kind),
               p.edge ? Value(p.edge->effect.mean) : Value(),
               p.edge ? Value(p.edge->effect.standard_error) : Value(),
               p.edge ? Value(p.edge->predictions[0].effect.mean) : Value(), p.score.score,
               p.score.random_mean, p.above_random(), p.summary.eigenvalues, p.summary.diagonal});
}

void add_largest(Table& table, const CircuitStudy& s) {
  table.title = "Largest entries of the maps";
  table.note = fmt::format(
      "The maps are too large for pictures, arrays and the page. Rows are the query's token (QK) "
      "or the token that is read (OV), columns the key's token or the logit. The {} largest "
      "magnitudes of each map.",
      kLargest);
  for (const HeadCircuit& h : s.heads)
    for (const auto& [name, map] : {std::pair{" QK", &h.qk}, std::pair{" OV", &h.ov}})
      for (const nn::MapEntry& e : largest_entries(*map, kLargest))
        table.add({nn::head_name(h.head) + name, s.tokens[std::size_t(e.row)],
                   s.tokens[std::size_t(e.column)], e.value});
}

// ---- arrays and pictures

constexpr std::size_t kDrawnPairs = 12;  // composed maps that are drawn and stored

// The pairs whose maps are drawn and stored.
std::span<const PairCircuit> drawn_pairs(const CircuitStudy& s) {
  return std::span(s.pairs).first(s.has_maps() ? std::min(s.pairs.size(), kDrawnPairs) : 0);
}

bool has_positions(const CircuitStudy& s) {
  return !are_relative(s.model().positions) && s.model().context <= 4096;
}

// Returns a map as a square matrix, float32. Columns of tokens that are not logits are -inf.
nn::Tensor square(const nn::FactoredMap& map) {
  const nn::Tensor full = to(map.full(), autograd::float32);
  const nn::Tensor rest = autograd::full({full.size(0), full.size(0) - full.size(1)}, -HUGE_VAL);
  return autograd::cat({full, rest}, 1);
}

void save_arrays(const std::filesystem::path& file, const CircuitStudy& s,
                 const PictureSource& source) {
  std::map<std::string, std::vector<nn::Tensor>> of;  // by name, one tensor for each head
  const auto add = [&](const HeadCircuit& h, std::string_view name, const nn::Tensor& x) {
    of[nn::block_site(h.head.layer, name)].push_back(x);
  };
  for (const HeadCircuit& h : s.heads) {
    if (s.has_maps()) add(h, "qk", h.qk.full()), add(h, "ov", h.ov.full());
    if (has_positions(s)) add(h, "positions", s.circuits.positions(h.head).full());
    const auto count = std::int64_t(h.curve.mean.size());
    if (count == 0) continue;
    add(h, "curve", autograd::from_data(h.curve.mean, {count}));
    add(h, "curve_deviation", autograd::from_data(h.curve.deviation, {count}));
  }
  std::vector<nn::NamedTensor> arrays;
  for (const auto& [name, heads] : of) arrays.push_back({name, autograd::stack(heads, 0)});
  for (const PairCircuit& p : drawn_pairs(s)) arrays.push_back({p.name(), p.map.full()});
  nn::save_safetensors(
      file.string(), arrays,
      {{"run", source.run_name()},
       {"left_out", kMapsLeaveOut},
       {"schema",
        "qk [head, query's token, key's token], ov [head, token that is read, logit], positions "
        "[head, query's position, key's position], curve and curve_deviation [head, distance], "
        "L0H1:K:L1H0 [row, column]: a composed map"}});
}

// Adds a picture of maps, {title of the panel, map}. Adds nothing if there are none.
void add_maps(Section& section, const std::string& file, plot::HeatmapGrid grid,
              const std::vector<std::pair<std::string, nn::FactoredMap>>& maps) {
  // Larger maps are only drawn, and are in the array file.
  constexpr int kLongest = 128;
  constexpr std::size_t kMostNumbers = 100'000;
  if (maps.empty()) return;
  for (const auto& [title, map] : maps) {
    const nn::Tensor values = square(map);
    grid.panels.push_back(
        {title, int(values.size(0)), int(values.size(1)), values.to_vector<float>()});
  }
  grid.title += ", from the weights";
  grid.gray = "not a logit";
  grid.scale = plot::ColorScale::kDiverging;
  if (!grid.by_panel) grid.limit = largest_magnitude(grid);
  const plot::Panel& first = grid.panels[0];
  const bool is_large =
      first.rows > kLongest || grid.panels.size() * first.values.size() > kMostNumbers;
  if (grid.row_labels.empty())
    for (int i = 0; i < first.rows; ++i) grid.row_labels.push_back(std::to_string(i));
  if (grid.col_labels.empty()) grid.col_labels = grid.row_labels;
  section.pictures.push_back({file, std::move(grid), kMapsLeaveOut, is_large});
}

// Returns a chart of the mean score of each head by distance, with a band of one deviation.
Picture curves_picture(const CircuitStudy& s) {
  plot::ChartStack stack{.title = "Scores by distance, from the weights",
                         .caption = "Mean over all pairs of tokens. Band: one standard deviation."};
  std::vector<nn::HeadReport> heads;
  for (const HeadCircuit& h : s.heads) {
    const auto& [mean, deviation] = h.curve;
    std::vector<double> distances(mean.size());
    std::iota(distances.begin(), distances.end(), 0);
    plot::Series line = head_line(h.head, distances, mean);
    for (std::size_t d = 0; d < mean.size(); ++d)
      line.low.push_back(mean[d] - deviation[d]), line.high.push_back(mean[d] + deviation[d]);
    if (h.head.head == 0)
      stack.panels.push_back({.title = fmt::format("score, layer {}", h.head.layer),
                              .x_name = "tokens from the key to the query",
                              .height = 220});
    stack.panels.back().series.push_back(std::move(line));
    heads.emplace_back();
    static_cast<nn::HeadIndex&>(heads.back()) = h.head;
  }
  name_heads(stack, heads);
  return {"distance_curves", std::move(stack), kMapsLeaveOut};
}

void add_pictures(Section& section, const CircuitStudy& s) {
  std::vector<std::pair<std::string, nn::FactoredMap>> qk, ov, pairs, positions;
  for (const HeadCircuit& h : s.heads) {
    const std::string name = nn::head_name(h.head);
    if (s.has_maps()) qk.emplace_back(name, h.qk), ov.emplace_back(name, h.ov);
    if (has_positions(s)) positions.emplace_back(name, s.circuits.positions(h.head));
  }
  for (const PairCircuit& p : drawn_pairs(s)) pairs.emplace_back(p.name(), p.map);
  const int columns = int(s.model().attention.heads);
  add_maps(section, "qk",
           {.title = "QK maps" + s.at_distance(),
            .caption = "Score of a query's token with a key's token.",
            .panel_columns = columns,
            .row_labels = s.tokens,
            .col_labels = s.tokens,
            .row_axis = "query's token",
            .col_axis = "key's token",
            .value_name = "score"},
           qk);
  add_maps(section, "ov",
           {.title = "OV maps",
            .caption = "Logits that a head adds if it reads a token.",
            .panel_columns = columns,
            .row_labels = s.tokens,
            .col_labels = s.tokens,
            .row_axis = "token that is read",
            .col_axis = "logit",
            .value_name = "logit"},
           ov);
  add_maps(section, "composed",
           {.title = "Composed maps",
            .caption =
                "The first pairs of the table. L0H1:K:L1H0: L1H0 reads L0H1 in its keys. K and Q: "
                "scores by query's token (row) and key's token. V: logits by "
                "token that is read (row).",
            .panel_columns = 4,
            .row_labels = s.tokens,
            .col_labels = s.tokens,
            .row_axis = "token",
            .col_axis = "token",
            .value_name = "score or logit",
            .root = false,
            .by_panel = true},
           pairs);
  add_maps(section, "positions",
           {.title = "QK maps of positions",
            .caption = "Score of a query's position with a key's position, for the "
                       "mean token.",
            .panel_columns = columns,
            .row_axis = "query's position",
            .col_axis = "key's position",
            .value_name = "score"},
           positions);
  if (s.model().attention.rope) section.pictures.push_back(curves_picture(s));
}

std::optional<std::int64_t> given_distance(const StudyContext& c) {
  if (!c.given("distance")) return {};
  const nn::Transformer::Options& o = c.model().options;
  if (!o.attention.rope)
    usage_error(
        "--distance: the scores of this model have no rotation; only runs trained with "
        "--positions rope have one");
  const std::int64_t distance = *heed::parse_number<std::int64_t>(c.text("distance"));
  if (distance >= o.context)
    usage_error("--distance: needs 0 to {}, got {}", o.context - 1, distance);
  return distance;
}

Section circuits_of_weights(StudyContext& c) {
  const auto distance = given_distance(c);
  const nn::Circuits circuits(c.model());
  c.progress.at_work("Computing maps");
  CircuitStudy s = compute(circuits, c.model(), distance, c.heads.sample, c.progress);
  std::vector<std::int64_t> ids(std::size_t(c.model().options.vocab));
  std::iota(ids.begin(), ids.end(), 0);
  s.tokens = c.subject.info().vocabulary.labels(ids);
  Section section{
      .key = "weights", .title = "Circuits from the weights", .sentences = {kMapsLeaveOut}};
  Table heads(kHeadCircuit), pairs(kComposition), largest(kEntry);
  add_heads(heads, s), add_compositions(pairs, s);
  section.tables = {std::move(heads)};
  if (!s.pairs.empty()) section.tables.push_back(std::move(pairs));
  if (!s.has_maps()) add_largest(largest, s), section.tables.push_back(std::move(largest));
  section.finding = counted(std::ssize(s.heads), "head");
  section.files = {c.folder / "circuits.safetensors"};
  save_arrays(section.files[0], s, c.subject.source);
  add_pictures(section, s);
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
          "0; composed maps: the mean over all distances from 1 on"}},
    .group = "Weights",
    .notes =
        R"(--circuits computes maps from the weights, beside the measured edges between heads: QK (scores of a token with another token), OV (logits
that a head adds if it reads a token), their compositions for pairs of heads, and composition scores.
It writes circuits.safetensors, pictures and report.html into the directory circuits of the run.)",
    .pictures = {"qk", "ov", "composed", "positions", "distance_curves"},
    .check = [](const StudyContext& c) { given_distance(c); },
    .run = circuits_of_weights};

}  // namespace
}  // namespace heed
