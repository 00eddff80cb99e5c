// Effects of cells of the attention weights, in the sequence shown.
#include "nn/lab/study/cells.h"

#include <fmt/format.h>

#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

std::vector<lab::Cell> given_cells(const StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
  return lab::parse_cells("--block", c.options.block, o.layers, o.attention.heads,
                          std::ssize(c.subject.texts.tokens));
}

double value_at(const nn::Tensor& map, const lab::Cell& cell) {
  return map.at({0, cell.head.head, cell.query, cell.key});
}

// Measures the blocked cells (--block).
void add_blocked(Section& s, StudyContext& c) {
  const std::vector<lab::Cell> cells = given_cells(c);
  const lab::BaseRun run = c.subject.base();
  const lab::Effect effect = lab::block_cells(run, cells);
  double slope = 0;
  for (const lab::Cell& cell : cells)
    slope += value_at(c.study().layers[std::size_t(cell.head.layer)].scores_grad, cell);
  s.tables.push_back({.columns = {{"cells"},
                                  {"effect", effect_unit(run.objective), "{:+.4g}"},
                                  {"dL/dS", "", "{:+.3g}"}},
                      .title = "Blocked cells: their scores are -inf, and the other weights of the "
                               "query grow",
                      .rows = {{lab::cells_text(cells), effect.mean, slope}}});
  s.answers = {
      fmt::format("With {} blocked, L on the sequence shown changes by {:+.4g}; the other "
                  "weights of the query grow.",
                  lab::cells_text(cells), effect.mean)};
}

// All visible cells, with the predictions of their effects.
struct CellPredictions {
  std::vector<lab::Cell> cells;
  std::vector<lab::Evidence> rows;  // by cell
};
CellPredictions predict_cells(StudyContext& c) {
  const StudySample& e = c.shown();
  const lab::Attribution a =
      lab::attribute(e.run, e.donors, {.cells = true}, c.counting("Predicting cells"));
  const Index window = c.model().options.attention.window;
  CellPredictions all;
  for (std::size_t l = 0; l < a.cell_path.size(); ++l) {
    const auto path = lab::to_doubles(a.cell_path[l]),
               gradient = lab::to_doubles(a.cell_gradient[l]);
    const Index heads = a.cell_path[l].size(0), n = a.cell_path[l].size(1);
    for (Index h = 0; h < heads; ++h)
      for (Index i = 0; i < n; ++i)
        for (Index j = window ? std::max<Index>(0, i - window + 1) : 0; j <= i; ++j) {
          all.cells.push_back({{Index(l), h}, i, j});
          const auto at = std::size_t((h * n + i) * n + j);
          all.rows.push_back({lab::cell_name(all.cells.back()), {}, path[at], gradient[at]});
        }
  }
  return all;
}

Section cells_section(StudyContext& c) {
  const StudySample& e = c.shown();
  Section s{
      .key = "cells",
      .title = fmt::format("Cells: effects on L in {}, on the sequence shown",
                           effect_unit(e.run.objective)),
      .sentences = {fmt::format(
          "L1H0[5,3] is query 5 and key 3 of L1H0. effect: the query receives from the key the "
          "value of another sequence, with the same weight A. error: over {} donors. L is {}.",
          e.run.values.size(), e.objective)}};
  if (!c.options.block.empty()) add_blocked(s, c);
  if (e.donors.rows.empty()) {
    s.sentences.push_back(e.without_donors);
    return s;
  }
  const CellPredictions predicted = predict_cells(c);
  const lab::CellEffects measured(e.run, e.donors);
  std::vector<std::size_t> order = affordable(
      c, "cells", predicted.rows, [&](std::size_t i) { return measured.work(predicted.cells[i]); });
  std::ranges::sort(order);  // cells of one layer share passes
  std::vector<std::vector<lab::Cell>> sets;
  for (const std::size_t i : order) sets.push_back({predicted.cells[i]});
  c.progress.at_work(fmt::format("Measuring {} cells", sets.size()));
  const std::vector<lab::Effect> effects = measured.effects(sets);
  std::vector<lab::Evidence> rows;
  for (std::size_t n = 0; n < order.size(); ++n) {
    rows.push_back(predicted.rows[order[n]]);
    rows.back().effect = effects[n];
  }
  const lab::Judgement j = lab::judge(rows, c.smallest());
  Table t = evidence_table("cell", rows, j);
  t.shown = 20;
  t.columns[5].in_text = t.columns[6].in_text = false;  // predictions
  t.columns.insert(t.columns.begin() + 1, {{"query"},
                                           {"key"},
                                           {"S", "", "{:.2g}"},
                                           {"A", "", "{:.3f}"},
                                           {"dL/dA", "", "{:+.2g}"},
                                           {"dL/dS", "", "{:+.2g}"}});
  for (std::size_t n = 0; n < t.rows.size(); ++n) {
    const lab::Cell& cell = predicted.cells[order[j.order[n]]];
    const lab::LayerStudy& layer = c.study().layers[std::size_t(cell.head.layer)];
    t.rows[n].insert(
        t.rows[n].begin() + 1,
        {c.subject.texts.visible_token(cell.query), c.subject.texts.visible_token(cell.key),
         value_at(layer.scores, cell), value_at(layer.pattern, cell),
         value_at(layer.pattern_grad, cell), value_at(layer.scores_grad, cell)});
  }
  if (const std::string text = agreement_text(j); !text.empty()) s.sentences.push_back(text);
  s.tables.push_back(std::move(t));
  s.measured = measured_text(rows.size(), predicted.rows.size());
  s.sentences.push_back(fmt::format("Effects: {}.", s.measured));
  return s;
}

}  // namespace

const Analysis kCells{
    .key = "cells",
    .advice = "add --prompt, --sample or --block",
    .asked = [](const StudyOptions& o) { return !o.block.empty(); },
    .by_default =
        [](StudyContext& c) { return c.options.chooses_sequence() || c.options.shows("cells"); },
    .check =
        [](StudyContext& c) {
          if (!c.options.block.empty()) given_cells(c);
        },
    .run = cells_section};

}  // namespace heed
