#include "tools/heed/study/circuit_files.h"

#include <algorithm>
#include <numeric>

#include "nn/io/safetensors.h"
#include "nn/study/blocks.h"
#include "tools/heed/study/page/page.h"
#include "tools/heed/study/page_data.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

constexpr std::size_t kDrawnPairs = 12;         // composed maps that are drawn and stored
constexpr std::int64_t kPageBytes = 7'500'000;  // of the maps; the page has at most 8 MB

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

// Draws maps, {title of the panel, map}, into one picture. Draws nothing if there are none.
Files draw_maps(const std::filesystem::path& file, plot::HeatmapGrid grid,
                const std::vector<std::pair<std::string, nn::FactoredMap>>& maps,
                const PictureSource& source) {
  if (maps.empty()) return {};
  for (const auto& [title, map] : maps) {
    const nn::Tensor values = square(map);
    grid.panels.push_back(
        {title, int(values.size(0)), int(values.size(1)), values.to_vector<float>()});
  }
  grid.title += ", from the weights";
  grid.gray = "not a logit";
  grid.scale = plot::ColorScale::kDiverging;
  if (!grid.by_panel) grid.limit = largest_magnitude(grid);
  return write_picture(file, grid, source, kMapsLeaveOut);
}

// Draws the mean score of each head by distance, with a band of one deviation.
Files draw_curves(const std::filesystem::path& file, const CircuitStudy& s,
                  const PictureSource& source) {
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
  return write_picture(file, stack, source, kMapsLeaveOut);
}

nn::Json page_map(const nn::HeadIndex& head, const nn::FactoredMap& map) {
  const nn::Tensor values = square(map);
  const nn::Tensor heads = reshape(values, {1, 1, values.size(0), values.size(1)});
  const nn::BlockMap b = nn::block_maps(heads, heads, nn::BlockRule::kLargest)[0];
  nn::Json entry = nn::Json::object({{"layer", head.layer}, {"head", head.head}});
  entry.update(encode_map(b.values, b.size, false, b.hidden));
  return entry;
}

// Returns the description of a quantity of the page.
nn::Json page_quantity(std::string_view name, const std::string& title, bool to_logits,
                       std::string_view what) {
  const std::vector<std::string> tokens{"query's token", "key's token"},
      logits{"token that is read", "logit"};
  return nn::Json::object({{"name", name},
                           {"title", title},
                           {"unit", ""},
                           {"signed", true},
                           {"what", what},
                           {"axes", to_logits ? logits : tokens}});
}

}  // namespace

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

Files write_circuits(const std::filesystem::path& folder, const CircuitStudy& s,
                     const PictureSource& source) {
  std::vector<std::pair<std::string, nn::FactoredMap>> qk, ov, pairs, positions;
  for (const HeadCircuit& h : s.heads) {
    const std::string name = nn::head_name(h.head);
    if (s.has_maps()) qk.emplace_back(name, h.qk), ov.emplace_back(name, h.ov);
    if (has_positions(s)) positions.emplace_back(name, s.circuits.positions(h.head));
  }
  for (const PairCircuit& p : drawn_pairs(s)) pairs.emplace_back(p.name(), p.map);
  const int columns = int(s.model().attention.heads);
  Files files = {folder / "circuits.safetensors"};
  save_arrays(files[0], s, source);
  append(files, draw_maps(folder / "qk.png",
                          {.title = "QK maps" + s.at_distance(),
                           .caption = "Score of a query's token with a key's token.",
                           .panel_columns = columns,
                           .row_labels = s.tokens,
                           .col_labels = s.tokens,
                           .row_axis = "query's token",
                           .col_axis = "key's token",
                           .value_name = "score"},
                          qk, source));
  append(files, draw_maps(folder / "ov.png",
                          {.title = "OV maps",
                           .caption = "Logits that a head adds if it reads a token.",
                           .panel_columns = columns,
                           .row_labels = s.tokens,
                           .col_labels = s.tokens,
                           .row_axis = "token that is read",
                           .col_axis = "logit",
                           .value_name = "logit"},
                          ov, source));
  append(
      files,
      draw_maps(
          folder / "composed.png",
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
          pairs, source));
  append(files, draw_maps(folder / "positions.png",
                          {.title = "QK maps of positions",
                           .caption = "Score of a query's position with a key's position, for the "
                                      "mean token.",
                           .panel_columns = columns,
                           .row_axis = "query's position",
                           .col_axis = "key's position",
                           .value_name = "score"},
                          positions, source));
  if (s.model().attention.rope)
    append(files, draw_curves(folder / "distance_curves.png", s, source));
  return files;
}

std::filesystem::path write_circuit_page(const std::filesystem::path& folder, const CircuitStudy& s,
                                         const PictureSource& source, const nn::Json& tables) {
  nn::Json quantities = nn::Json::array();
  quantities.push_back(
      page_quantity("qk", "QK: scores", false, "score of a query's token with a key's token"));
  quantities.push_back(page_quantity(
      "ov", "OV: logits", true, "logits that a head adds if it reads a token; gray: not a logit"));
  PagePane pane{source.run_name(), source.weights,   kMapsLeaveOut,
                s.tokens,          s.model().layers, s.model().attention.heads};
  const std::int64_t all = s.model().attention.rope ? s.model().context : 1;
  if (all > 1)
    pane.objective += " The slider selects the distance from key to query for the QK maps.";
  pane.fixed_maps.append("ov", nn::Json::array());
  for (const HeadCircuit& h : s.heads) pane.fixed_maps["ov"].push_back(page_map(h.head, h.ov));
  for (const PairCircuit& p : drawn_pairs(s)) {
    const std::string a = nn::head_name(p.score.a), kind = nn::enum_name(p.score.kind);
    const std::string name = a + ":" + kind;
    if (!pane.fixed_maps.find(name)) {
      const bool to_logits = p.score.kind == nn::Composition::kV;
      pane.fixed_maps.append(name, nn::Json::array());
      quantities.push_back(page_quantity(
          name, kind + "-composed with " + a, to_logits,
          "what a head reads of the output of " + a + (to_logits ? "" : s.over_distances())));
    }
    pane.fixed_maps[name].push_back(page_map(p.score.b, p.map));
  }
  std::int64_t left = kPageBytes - std::int64_t(pane.fixed_maps.dump().size()), shown = 0;
  for (std::int64_t d = 0; d < all; ++d) {
    const bool chosen = d == s.distance.value_or(0);
    if (left <= 0 && !chosen) continue;  // a chosen distance is always on the page
    if (chosen) shown = std::ssize(pane.checkpoints.items());
    nn::Json qk = nn::Json::array();
    for (const HeadCircuit& h : s.heads) qk.push_back(page_map(h.head, s.circuits.qk(h.head, d)));
    left -= std::int64_t(qk.dump().size());
    pane.checkpoints.push_back(
        nn::Json::object({{"step", d}, {"maps", nn::Json::object({{"qk", qk}})}}));
  }
  pane.saved_checkpoints = all;
  return write_page(folder,
                    nn::Json::object({{"title", source.run_name() + ": circuits from the weights"},
                                      {"quantities", quantities},
                                      {"head_columns", nn::Json::array()},
                                      {"panes", nn::Json::Array{pane.json()}},
                                      {"tables", tables},
                                      {"step_name", "distance"},
                                      {"first_checkpoint", shown}}));
}

}  // namespace heed
