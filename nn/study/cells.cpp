#include "nn/study/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>
#include <set>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "nn/study/study.h"

namespace heed::nn {

using namespace autograd;

namespace {

// ---- names of cells

// Parses "3", "0-3" or "*". Returns no value for any other text.
std::optional<Span> read_range(const std::string& text, std::int64_t length) {
  if (text == "*") return Span{0, length - 1};
  const std::size_t dash = text.find('-');
  const auto first = parse_number<std::int64_t>(text.substr(0, dash));
  const auto last =
      dash == std::string::npos ? first : parse_number<std::int64_t>(text.substr(dash + 1));
  if (!first || !last) return {};
  return Span{*first, *last};
}

// Parses one item of a list of cells, such as "L1H0[5,0-3]" or "L0H0,L1H0[5,3]", and appends the
// cells of each of its heads to `cells`.
void read_item(std::string_view what, const std::string& item, std::int64_t layers,
               std::int64_t heads, std::int64_t length, std::vector<Cell>& cells) {
  const std::size_t open = item.find('['), comma = item.find(',', open);
  std::optional<Span> queries, keys;
  if (open != std::string::npos && comma != std::string::npos && item.ends_with(']')) {
    queries = read_range(item.substr(open + 1, comma - open - 1), length);
    keys = read_range(item.substr(comma + 1, item.size() - comma - 2), length);
  }
  check<ValueError>(queries && keys, what, "'", item,
                    "' is not a cell; write a head, a query and a key, such as L1H0[5,3], "
                    "L1H0[5,0-3] or L1H0[*,3]");
  const auto chosen = parse_heads(what, item.substr(0, open), layers, heads);
  for (const Span& r : {*queries, *keys})
    check<ValueError>(r.first >= 0 && r.first <= r.last && r.last < length, what, "'", item,
                      "': positions are 0 to ", length - 1,
                      ", and a range has the smaller position first, such as 0-3");
  const std::size_t before = cells.size();
  for (const HeadIndex& head : chosen)
    for (std::int64_t query = queries->first; query <= queries->last; ++query)
      for (std::int64_t key = keys->first; key <= std::min(keys->last, query); ++key)
        cells.push_back({head, query, key});
  check<ValueError>(cells.size() > before, what, "'", item,
                    "': the key is after the query, so the query cannot read it; the first number "
                    "is the query");
}

// ---- measurement

std::string place_of(const std::vector<Cell>& cells) {
  if (cells.size() > 4) return fmt::format("{} cells", cells.size());
  std::vector<std::string> names;
  for (const Cell& c : cells) names.push_back(cell_name(c));
  return heed::join(names, ", ");
}

// Returns [n, H, T, T] bool8: true at the cells of this layer in sets[i].
Tensor cells_of_layer(const std::vector<std::vector<Cell>>& sets, std::int64_t layer,
                      std::int64_t heads, std::int64_t length) {
  const Tensor cut = zeros({std::ssize(sets), heads, length, length}, bool8);
  bool* is_cut = cut.mutable_data<bool>();
  for (std::int64_t i = 0; i < std::ssize(sets); ++i)
    for (const Cell& c : sets[std::size_t(i)])
      if (c.head.layer == layer)
        is_cut[((i * heads + c.head.head) * length + c.query) * length + c.key] = true;
  return cut;
}

double predicted_change(const Study& study, const std::vector<Cell>& cells) {
  if (cells.size() == 1) {
    const Cell& c = cells[0];
    return study.layers[std::size_t(c.head.layer)].cut_prediction.at(
        {0, c.head.head, c.query, c.key});
  }
  std::set<std::int64_t> layers;
  for (const Cell& c : cells) layers.insert(c.head.layer);
  double change = 0;
  for (const std::int64_t layer : layers) {
    const LayerStudy& s = study.layers[std::size_t(layer)];
    const Tensor cut = cells_of_layer({cells}, layer, s.scores.size(1), s.scores.size(2));
    const Tensor scores = to(s.scores, float64);
    const Tensor difference =
        softmax(masked_fill(scores, cut, -HUGE_VAL), -1) - softmax(scores, -1);
    const Tensor dA = masked_fill(to(s.pattern_grad, float64), le(scores, -HUGE_VAL), 0);
    change += sum(difference * dA).item();
  }
  return change;
}

// Computes cut_predictions() for some queries of a layer, [B, H, queries, Tk].
Tensor predict_cuts(const Tensor& scores, const Tensor& pattern_grad) {
  const Tensor S = to(scores, float64), A = softmax(S, -1), hidden = le(S, -HUGE_VAL);
  const Tensor slope = masked_fill(to(pattern_grad, float64), hidden, 0);
  const Tensor total = sum(A * slope, {-1}, true);
  const Tensor large = gt(A, 0.5), small = A * (total - slope) / masked_fill(1 - A, large, 1);
  if (!any(large).item<bool>()) return small;
  // For a large weight, 1 - A may have lost all its digits, so the softmax of the other scores is
  // computed instead. A row has at most one such weight.
  const Tensor rest = softmax(masked_fill(S, large, -HUGE_VAL), -1);
  return where(large, sum(rest * slope, {-1}, true) - total, small);
}

}  // namespace

std::string cell_name(const Cell& cell) {
  return fmt::format("{}[{},{}]", head_name(cell.head), cell.query, cell.key);
}

std::vector<Cell> parse_cells(std::string_view what, const std::string& text, std::int64_t layers,
                              std::int64_t heads, std::int64_t length) {
  std::vector<Cell> cells;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t close = text.find(']', begin);
    const std::size_t end = text.find(',', close == std::string::npos ? begin : close);
    read_item(what, text.substr(begin, end - begin), layers, heads, length, cells);
    begin = end == std::string::npos ? text.size() + 1 : end + 1;
  }
  std::set<Cell> listed;
  for (const Cell& c : cells)
    check<ValueError>(listed.insert(c).second, what, "names ", cell_name(c), " twice");
  return cells;
}

Tensor cut_predictions(const Tensor& scores, const Tensor& pattern_grad) {
  const NoGrad guard;
  constexpr std::int64_t kQueries = 32;  // at once: float64 maps of long sequences are large
  const std::int64_t queries = scores.size(2), keys = scores.size(3);
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < queries; first += kQueries) {
    const std::int64_t end = std::min(first + kQueries, queries), visible = end + keys - queries;
    const auto part = [&](const Tensor& x) {
      return slice(slice(x, 2, first, end), 3, 0, visible);
    };
    const Tensor predicted = predict_cuts(part(scores), part(pattern_grad)),
                 hidden = zeros({scores.size(0), scores.size(1), end - first, keys - visible});
    const DType dtype = pattern_grad.dtype();
    parts.push_back(cat({to(predicted, dtype), to(hidden, dtype)}, 3));
  }
  return cat(parts, 2);
}

std::vector<Evidence> cut_cells(const BaseRun& run, const Study& study,
                                const std::vector<std::vector<Cell>>& sets) {
  const NoGrad guard;
  check_one_sequence("cut_cells", run.batch);
  const Transformer& model = run.model();
  const std::int64_t length = run.batch.inputs.size(1), heads = model.options.attention.heads;
  for (const auto& cells : sets) {
    check<ValueError>(!cells.empty(), "cut_cells", "needs at least one cell in each set");
    for (const Cell& c : cells) {
      check_component("cut_cells", c.head, model.options.layers, heads);
      check<ValueError>(c.key >= 0 && c.key <= c.query && c.query < length, "cut_cells",
                        "the sequence of ", length, " tokens has no cell ", cell_name(c));
    }
  }
  const auto at_once = std::size_t(std::min(kMaxCopies, sequences_at_once(model, length)));
  std::vector<Evidence> cuts;
  for (std::size_t first = 0; first < sets.size(); first += at_once) {
    const std::vector<std::vector<Cell>> part(
        sets.begin() + std::ptrdiff_t(first),
        sets.begin() + std::ptrdiff_t(std::min(first + at_once, sets.size())));
    Probe probe;
    std::int64_t start = model.options.layers;
    for (std::int64_t layer = model.options.layers - 1; layer >= 0; --layer) {
      const auto here = [&](const Cell& c) { return c.head.layer == layer; };
      if (std::ranges::none_of(part,
                               [&](const auto& cells) { return std::ranges::any_of(cells, here); }))
        continue;
      start = layer;
      probe.replace(block_site(layer, "attn.hook_attn_scores"), [&, layer](const Tensor& scores) {
        return masked_fill(scores, cells_of_layer(part, layer, heads, length), -HUGE_VAL);
      });
    }
    const BaseRun copies = run.repeated(std::ssize(part));
    const auto changes = copies.changes(to_doubles(copies.values_from(start, probe)));
    for (std::size_t i = 0; i < part.size(); ++i) {
      const double predicted = predicted_change(study, part[i]);
      cuts.push_back(
          {place_of(part[i]), effect_of({changes[i]}), {{"gradient", effect_of({predicted})}}});
      check_finite(changes[i] + predicted, "cut_cells", "the effect of " + cuts.back().place);
    }
  }
  return cuts;
}

std::vector<Cell> notable_cells(const Study& study, std::int64_t count) {
  std::vector<Cell> chosen;
  for (const auto member : {&LayerStudy::cut_prediction, &LayerStudy::pattern_x_value_norm}) {
    const std::set<Cell> taken(chosen.begin(), chosen.end());
    using Entry = std::pair<double, Cell>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> largest;  // smallest on top
    for (std::size_t l = 0; l < study.layers.size(); ++l) {
      const Tensor map = contiguous(to(study.layers[l].*member, float64));
      const double* values = map.data<double>();
      const std::int64_t length = map.size(2), count_of_map = map.numel();
      for (std::int64_t i = 0; i < count_of_map; ++i) {
        const double size = std::abs(values[i]);
        if (std::int64_t(largest.size()) == count && !(size > largest.top().first)) continue;
        const Cell c{{std::int64_t(l), i / length / length}, i / length % length, i % length};
        const double score = study.layers[l].scores.at({0, c.head.head, c.query, c.key});
        if (score == -HUGE_VAL || taken.contains(c)) continue;
        largest.emplace(size, c);
        if (std::int64_t(largest.size()) > count) largest.pop();
      }
    }
    for (; !largest.empty(); largest.pop()) chosen.push_back(largest.top().second);
  }
  return chosen;
}

}  // namespace heed::nn
