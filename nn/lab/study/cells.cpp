#include "nn/lab/study/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/lab/study/attribution.h"
#include "nn/layers/probe.h"

namespace heed::lab {

using namespace autograd;

namespace {

// ---- names of cells

// Parses "3", "0-3" or "*". Returns no value for any other text.
std::optional<Span> read_range(const std::string& text, Index length) {
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
void read_item(std::string_view what, const std::string& item, Index layers, Index heads,
               Index length, std::vector<Cell>& cells) {
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
    for (Index query = queries->first; query <= queries->last; ++query)
      for (Index key = keys->first; key <= std::min(keys->last, query); ++key)
        cells.push_back({head, query, key});
  check<ValueError>(cells.size() > before, what, "'", item,
                    "': the key is after the query, so the query cannot read it; the first number "
                    "is the query");
}

// ---- measurement

void check_cells(const std::vector<Cell>& cells, const Transformer& model, Index length) {
  check<ValueError>(!cells.empty(), "cells", "needs at least one cell in each set");
  for (const Cell& c : cells) {
    check_component("cells", c.head, model.options.layers, model.options.attention.heads);
    check<ValueError>(c.key >= 0 && c.key <= c.query && c.query < length, "cells",
                      "the sequence of ", length, " tokens has no cell ", cell_name(c));
  }
}

Index first_layer(const std::vector<Cell>& cells) {
  return std::ranges::min_element(cells)->head.layer;
}

}  // namespace

std::string cell_name(const Cell& cell) {
  return fmt::format("{}[{},{}]", head_name(cell.head), cell.query, cell.key);
}

std::vector<Cell> parse_cells(std::string_view what, const std::string& text, Index layers,
                              Index heads, Index length) {
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

std::string cells_text(const std::vector<Cell>& cells) {
  if (cells.size() > 4) return fmt::format("{} cells", cells.size());
  std::vector<std::string> names;
  for (const Cell& c : cells) names.push_back(cell_name(c));
  return heed::join(names, ", ");
}

CellEffects::CellEffects(const BaseRun& run, const Donors& donors)
    : run_(run), replaced_(replacements(run.model(), donors)) {
  const NoGrad guard;
  RecordedForward pass =
      record_forward(run.model(), run.batch.inputs, {"attn.hook_pattern", "attn.hook_v"});
  pattern_ = pass.at[0], v_ = pass.at[1];
}

std::vector<Effect> CellEffects::effects(const std::vector<std::vector<Cell>>& sets) const {
  const NoGrad guard;
  const Transformer& model = run_.model();
  const MultiHeadAttention::Options& o = model.options.attention;
  const Index count = std::ssize(run_.values), length = run_.batch.inputs.size(1);
  for (const auto& cells : sets) check_cells(cells, model, length);
  const auto most =
      std::size_t(std::clamp<Index>(sequences_at_once(model, length) / count, 1, kMaxCopies));
  std::vector<Effect> all;
  for (std::size_t first = 0; first < sets.size();) {
    std::size_t end = first + 1;
    const Index start = first_layer(sets[first]);
    while (end < std::min(sets.size(), first + most) && first_layer(sets[end]) == start) ++end;
    const BaseRun copies = run_.repeated(Index(end - first));
    std::vector<std::vector<std::vector<double>>> changes(end - first);  // by set, donor, sequence
    for (const Replacement& donor : replaced_) {
      std::map<Index, std::vector<double>> added;  // by layer, to z of all copies
      for (std::size_t n = first; n < end; ++n)
        for (const Cell& c : sets[n]) {
          const auto layer = std::size_t(c.head.layer);
          std::vector<double>& z = added[c.head.layer];
          z.resize((end - first) * std::size_t(count * length * o.heads * o.d_value));
          const Index kv = o.kv_head(c.head.head);
          const Tensor change = to(slice(donor.v(c.head.layer), 1, c.key, c.key + 1) -
                                       slice(v_[layer], 1, c.key, c.key + 1),
                                   float64);
          const auto values = contiguous(select(change, 2, kv)).to_vector<double>();
          for (Index b = 0; b < count; ++b) {
            const double A = pattern_[layer].at({b, c.head.head, c.query, c.key});
            const Index row = Index(n - first) * count + b;
            const Index at = ((row * length + c.query) * o.heads + c.head.head) * o.d_value;
            for (Index k = 0; k < o.d_value; ++k)
              z[std::size_t(at + k)] += A * values[std::size_t(b * o.d_value + k)];
          }
        }
      Probe probe;
      for (const auto& [layer, z] : added)
        probe.replace(block_site(layer, "attn.hook_z"), [&z = z](const Tensor& x) {
          return x + to(from_data(z, x.shape()), x.dtype());
        });
      const auto moved = copies.changes(to_doubles(copies.values_from(start, probe)));
      for (std::size_t n = 0; n < changes.size(); ++n)
        changes[n].emplace_back(moved.begin() + std::ptrdiff_t(n) * count,
                                moved.begin() + std::ptrdiff_t(n + 1) * count);
    }
    for (std::size_t n = first; n < end; ++n) {
      all.push_back(effect_of_donors(changes[n - first], run_.counts));
      check_finite(all.back().mean, "study", "the effect of " + cells_text(sets[n]));
    }
    first = end;
  }
  return all;
}

double CellEffects::work(const Cell& cell) const {
  const Index layers = run_.model().options.layers;
  return double(layers - cell.head.layer) / double(layers) *
         pass_work(run_.model(), run_.batch.inputs.size(1)) *
         double(run_.values.size() * replaced_.size());
}

Effect block_cells(const BaseRun& run, const std::vector<Cell>& cells) {
  const NoGrad guard;
  const Index length = run.batch.inputs.size(1);
  check_cells(cells, run.model(), length);
  Probe probe;
  for (Index layer = first_layer(cells); layer < run.model().options.layers; ++layer) {
    const Tensor blocked = zeros({run.model().options.attention.heads, length, length}, bool8);
    for (const Cell& c : cells)
      if (c.head.layer == layer)
        blocked.mutable_data<bool>()[(c.head.head * length + c.query) * length + c.key] = true;
    probe.replace(block_site(layer, "attn.hook_attn_scores"), [blocked](const Tensor& scores) {
      return masked_fill(scores, blocked, -HUGE_VAL);
    });
  }
  double accuracy = NAN;
  Effect e = effect_of(
      run.changes(to_doubles(run.values_from(first_layer(cells), probe, &accuracy))), run.counts);
  e.accuracy = accuracy;
  check_finite(e.mean, "study", "the effect of " + cells_text(cells));
  return e;
}

}  // namespace heed::lab
