#include "tools/heed/study/cell_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/study/marks.h"

namespace heed {
namespace {

double size_of(const nn::CellCut& cut) {
  return std::max(std::abs(cut.effect), std::abs(cut.predicted));
}

// Returns the effects of one sequence, which have no standard error.
std::vector<nn::EffectRow> rows_of_cuts(const std::vector<nn::CellCut>& cuts) {
  std::vector<nn::EffectRow> rows;
  for (const nn::CellCut& cut : cuts) rows.push_back({nn::effect_of({cut.effect}), cut.predicted});
  return rows;
}

const std::string kHowCut =
    "A cut sets the score of the cell to -inf, and the softmax divides its weight among the other "
    "keys; a query without a key receives nothing. predicted: the change of L by dL/dA for this "
    "change of the weights. effect: L with the "
    "cut, minus L. Both hold for the sequence shown.";

}  // namespace

std::vector<nn::CellCut> measure_notable_cells(const Subject& s, const nn::Study& study) {
  std::vector<std::vector<nn::Cell>> sets;
  // A pass over a long sequence takes long, and the table shows 20 cells.
  const std::int64_t count = std::ssize(s.texts.tokens) > 128 ? 12 : 32;
  for (const nn::Cell& cell : nn::notable_cells(study, count)) sets.push_back({cell});
  return nn::cut_cells(s.base(), study, sets);
}

std::vector<Value> marks_of_cells(const std::vector<nn::CellCut>& cuts, const Subject& s) {
  const std::vector<nn::EffectRow> rows = rows_of_cuts(cuts);
  const double largest = nn::largest_effect(rows), smallest = s.smallest_effect(s.objective);
  std::vector<Value> marks;
  for (const nn::EffectRow& row : rows)
    marks.push_back(s.predicts ? Value(nn::mark_text(row, nn::floor_of(row, largest, smallest)))
                               : Value());
  return marks;
}

Table cell_table(const std::vector<nn::CellCut>& cuts, const Subject& s, const nn::Study& study) {
  std::vector<double> predicted;
  for (const nn::CellCut& cut : cuts) predicted.push_back(cut.predicted);
  const double smallest = s.smallest_effect(s.objective);
  const std::vector<nn::EffectRow> rows = rows_of_cuts(cuts);
  const nn::Agreement agreement = nn::agreement(rows, predicted, smallest);
  const std::vector<Value> marks = marks_of_cells(cuts, s);
  Table t({{"", "cell"},
           {"", "query"},
           {"", "key"},
           {"", "A", "", "{:.3f}"},
           {"", "A |v W_O|", "", "{:.3g}", 1},
           {"", "predicted", "", "{:+.3g}"},
           {"", "effect", "", "{:+.3g}"},
           {"", "mark"}});
  t.title = fmt::format(
      "Cells: cuts of single cells, of the {} measured those with the largest "
      "effect or prediction",
      cuts.size());
  t.note = kHowCut + " Any other cell: --cut \"HEAD[query,key]\".";
  if (s.predicts)
    t.note += fmt::format(" Marks as for heads; below {:.2g} nothing counts.",
                          std::max(smallest, 0.05 * nn::largest_effect(rows)));
  if (const std::int64_t n = s.measured_positions(); n > 1)
    t.note += fmt::format(
        " L is a mean over {0} positions, so a change at one of them is {0} times as large as the "
        "change of L.",
        n);
  if (agreement.rows > 0)
    t.note += fmt::format(
        " The prediction is {:.2g} times the effect (median of the {} cells with an effect).",
        agreement.factor, agreement.rows);
  std::vector<std::size_t> order(cuts.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return size_of(cuts[i]); });
  if (order.size() > 20) order.resize(20);
  for (const std::size_t i : order) {
    const nn::CellCut& cut = cuts[i];
    const nn::Cell& c = cut.cells[0];
    const nn::LayerStudy& layer = study.layers[std::size_t(c.head.layer)];
    const auto at = [&](const nn::Tensor& map) { return map.at({0, c.head.head, c.query, c.key}); };
    t.add({nn::cell_name(c), s.texts.visible_token(c.query), s.texts.visible_token(c.key),
           at(layer.pattern), at(layer.pattern_x_value_norm), cut.predicted, cut.effect, marks[i]});
  }
  return t;
}

Table cut_table(const std::string& cut, const Subject& s, const nn::Study& study) {
  const nn::Transformer::Options& o = s.model().options;
  const auto cells =
      nn::parse_cells("--cut", cut, o.layers, o.attention.heads, std::ssize(s.texts.tokens));
  const nn::CellCut c = nn::cut_cells(s.base(), study, {cells})[0];
  Table t({{"", "cells"},
           {"", "number"},
           {"", "predicted", "", "{:+.4g}"},
           {"", "effect", "", "{:+.4g}"}});
  t.title = "Cut cells";
  t.note = kHowCut;
  t.add({cut, cells.size(), c.predicted, c.effect});
  return t;
}

}  // namespace heed
