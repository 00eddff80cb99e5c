// Cuts of cells of the attention weights, in the sequence of the study.
#include <fmt/format.h>

#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

std::vector<nn::Cell> given_cells(const StudyContext& c) {
  const nn::Transformer::Options& o = c.model().options;
  return nn::parse_cells("--cut", c.text("cut"), o.layers, o.attention.heads,
                         std::ssize(c.subject.texts.tokens));
}

// Adds to each row of the table of single cells its tokens and weights.
Table with_tokens(const Table& evidence, const NotableCells& cells, StudyContext& c) {
  Table t{.columns = evidence.columns, .shown = 20};
  t.columns.insert(t.columns.begin() + 1,
                   {{"query"}, {"key"}, {"A", "", "{:.3f}"}, {"A |v W_O|", "", "{:.3g}", false}});
  for (std::size_t n = 0; n < evidence.rows.size(); ++n) {
    const nn::Cell& cell = cells.cells[cells.judgement.order[n]];
    const nn::LayerStudy& layer = c.study().layers[std::size_t(cell.head.layer)];
    const auto at = [&](const nn::Tensor& map) {
      return map.at({0, cell.head.head, cell.query, cell.key});
    };
    std::vector<Value> row = evidence.rows[n];
    row.insert(row.begin() + 1,
               {c.subject.texts.visible_token(cell.query), c.subject.texts.visible_token(cell.key),
                at(layer.pattern), at(layer.pattern_x_value_norm)});
    t.rows.push_back(std::move(row));
  }
  return t;
}

Section cut_cells_of_sequence(StudyContext& c) {
  const NotableCells& cells = c.cells();
  Section s{
      .key = "cells",
      .title = fmt::format("Cells: cuts of the {} single cells with the largest prediction or "
                           "output, in the sequence shown",
                           cells.cells.size()),
      .sentences = {"A cut sets the score of the cell to -inf, and the softmax divides its "
                    "weight among the other keys; a query without a key receives nothing. "
                    "gradient: the change of L by dL/dA for this change of the weights. Any "
                    "other cell: --cut \"HEAD[query,key]\"."},
      .finding = finding_of(cells.evidence, cells.judgement)};
  const nn::ObjectiveAt at = nn::at_positions(c.subject.objective, c.subject.sequence);
  if (const std::size_t n = at.positions.size(); n > 1)
    s.sentences.push_back(fmt::format(
        "L is a mean over {0} positions, so a change at one of them is {0} times as large as the "
        "change of L.",
        n));
  if (c.given("cut")) {
    const auto rows = nn::cut_cells(c.subject.base(), c.study(), {given_cells(c)});
    Table t = evidence_table("cells", rows, c.judge(rows, c.subject.objective), false, false);
    t.title = "Cut cells: " + c.text("cut");
    s.tables.push_back(std::move(t));
  }
  s.tables.push_back(with_tokens(
      evidence_table("cell", cells.evidence, cells.judgement, c.subject.predicts, true), cells, c));
  s.tables.back().note = agreement_text(cells.judgement);
  return s;
}

const Analysis kCells{
    .key = "cells",
    .order = 60,
    .options = {{"cut", "CELLS",
                 "measures L if queries cannot read keys, such as L1H0[5,3] (query 5, key 3) or "
                 "L1H0[*,0-3]"}},
    .group = "Heads",
    .by_default = [](StudyContext&) { return true; },
    .repeats = false,
    .check =
        [](const StudyContext& c) {
          if (c.given("cut")) given_cells(c);
        },
    .run = cut_cells_of_sequence};

}  // namespace
}  // namespace heed
