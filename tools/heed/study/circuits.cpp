#include "tools/heed/study/circuits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/heed/find_run.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/circuit_files.h"
#include "tools/heed/study/head_study.h"
#include "tools/heed/study/study_files.h"
#include "tools/heed/study/study_tables.h"

namespace heed {
namespace {

constexpr std::size_t kLargest = 10;    // number of the largest entries of a map
constexpr std::size_t kPairMaps = 256;  // number of pairs whose composed maps are computed
constexpr std::size_t kEdges = 64;      // number of edges that are measured

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
                        .largest(edges, kEdges, [&](std::int64_t done, std::int64_t total) {
                          progress.at_work(fmt::format("Cutting edges: {} of {}", done, total));
                        });
  for (const nn::PathCut& cut : cuts)
    for (PairCircuit& p : s.pairs)
      if (edge_of(p.score, s.model()) == cut.paths[0]) p.edge = cut;
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
               p.edge ? Value(p.edge->predicted.mean) : Value(), p.score.score, p.score.random_mean,
               p.above_random(), p.summary.eigenvalues, p.summary.diagonal});
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

// Returns a table for the page, with the columns that text shows.
Table for_page(const Table& table) {
  std::vector<Column> columns;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto has_value = [&](const auto& row) { return row[i].dump() != "null"; };
    if (table.columns[i].label.empty() || std::ranges::none_of(table.rows, has_value)) continue;
    columns.push_back(table.columns[i]), places.push_back(i);
  }
  Table shown(columns);
  shown.title = table.title, shown.note = table.note;
  for (const std::vector<Value>& row : table.rows) {
    std::vector<Value> cells;
    for (const std::size_t i : places) cells.push_back(row[i]);
    shown.add(std::move(cells));
  }
  return shown;
}

}  // namespace

std::vector<nn::Setting> circuit_settings(CircuitArguments& a) {
  return {{"circuits", a.circuits,
           "maps of heads and pairs of heads from the weights; beside them the measured edges "
           "between heads"},
          nn::Setting("distance", a.distance, {0},
                      "tokens from the key to the query, for the QK and composed maps of RoPE")
              .shows("0; composed maps: the mean over all distances from 1 on")};
}

Columns circuit_keys() {
  static constexpr Column kKeys[] = {{"run"},
                                     {"distance"},
                                     rows("heads", kHeadCircuit),
                                     rows("compositions", kComposition),
                                     rows("largest", kEntry),
                                     {"files"}};
  return kKeys;
}

Report study_circuits(const CircuitArguments& a, const Command& c, const std::string& run_name,
                      const std::string& weights, const std::string& out_name, bool overwrite,
                      const std::vector<std::string>& formats) {
  const auto distance = c.given("distance") ? std::optional(a.distance) : std::nullopt;
  const std::filesystem::path folder = find_run(run_name);
  bool has_sequences = false;  // not required
  const auto loaded = open_for_study(folder, weights, has_sequences);
  const nn::LoadedRun& run = *loaded;
  const nn::Transformer::Options& o = run.model.options;
  if (distance && !o.attention.rope)
    usage_error(
        "--distance: the scores of this model have no rotation; only runs trained with "
        "--positions rope have one");
  if (distance.value_or(0) >= o.context)
    usage_error("--distance: needs 0 to {}, got {}", o.context - 1, *distance);
  const nn::Circuits circuits(run.model);
  const auto out = open_study_folder(out_name, folder / "circuits", overwrite);
  Progress progress(false);
  progress.at_work("Computing maps");
  std::optional<HeadSample> sample;
  if (has_sequences) {
    nn::Generator generator(1);
    const Subject subject(folder, loaded, run.task->example(generator),
                          {.kind = nn::Objective::kMargin});
    if (!surely_too_long(subject, default_samples(*run.task))) sample = sample_of({}, c, subject);
  }
  CircuitStudy s = compute(circuits, run.model, distance, sample, progress);
  std::vector<std::int64_t> ids(std::size_t(o.vocab));
  std::iota(ids.begin(), ids.end(), 0);
  s.tokens = run.task->info().vocabulary.labels(ids);

  Report report(circuit_keys());
  report.set("run", folder.string());
  report.set("distance", distance);
  report.line("{}: circuits from the weights. {}", folder.string(), kMapsLeaveOut);
  Table &heads = report.table("heads"), &pairs = report.table("compositions");
  add_heads(heads, s), add_compositions(pairs, s);
  if (!s.has_maps()) add_largest(report.table("largest"), s);

  progress.at_work("Drawing pictures and writing arrays");
  PictureSource source = source_of(folder, run.model);
  source.formats = formats;
  Files files = write_circuits(out->staging(), s, source);
  std::vector<Table> shown = {for_page(heads)};
  if (!s.pairs.empty()) shown.push_back(for_page(pairs));
  if (s.has_maps())
    files.push_back(write_circuit_page(out->staging(), s, source, tables_json(shown)));
  progress.clear();
  report.files(out->publish(files));
  return report;
}

}  // namespace heed
