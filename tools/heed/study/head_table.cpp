#include "tools/heed/study/head_table.h"

#include <algorithm>
#include <cmath>

namespace heed {

Columns head_columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> columns{{"layer"}, {"head"}, {"", "head"}};
    for (const nn::HeadQuantity& q : nn::head_quantities())
      columns.push_back({.key = q.name,
                         .label = q.column.heading,
                         .format = q.column.format,
                         .drop = q.column.drop});
    columns.push_back({"mark", "mark"});
    return columns;
  }();
  return all;
}

std::vector<Value> head_row(const nn::HeadReport& h, const std::string& name, Value mark) {
  std::vector<Value> row{h.layer, h.head, name};
  row.insert(row.end(), h.values.begin(), h.values.end());
  row.push_back(std::move(mark));
  return row;
}

void add_heads(Table& table, StudyContext& c) {
  const std::vector<nn::HeadReport> reports = c.reports();
  bool unscored = false;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const nn::HeadReport& h = reports[i];
    table.add(head_row(h, nn::head_name(h), c.mark(i)));
    unscored |= !std::isfinite(h[nn::kPreviousToken] + h[nn::kDuplicateToken] + h[nn::kInduction]);
  }
  table.text_row = head_row(c.uniform(), "uniform", Value(""));
  if (unscored) table.note = "-: no value, because no token occurs twice in this sequence. ";
  table.note +=
      "prev, ind: weight on the token before, and on the tokens after earlier copies. uniform: "
      "with "
      "equal weights.";
  if (c.heads.measured)
    table.note += fmt::format(
        " needed, suffices and mark (where the gradient misleads): on {}; the rest: on the "
        "sequence "
        "shown.",
        c.heads.sample->sequences);
  if (!c.heads.score_sequences.empty())
    table.note += fmt::format(" prev, ind: on {}.", c.heads.score_sequences);
}

Section heads_section(StudyContext& c) {
  Table all(head_columns());
  add_heads(all, c);
  all.add(all.text_row);
  constexpr std::ptrdiff_t kNamed = 2;  // layer and head, which the name has
  Table table(std::vector<Column>(all.columns.begin() + kNamed, all.columns.end()));
  table.note = all.note;
  for (const std::vector<Value>& row : all.rows) table.add({row.begin() + kNamed, row.end()});
  return {.key = "numbers", .title = "Numbers of the heads", .tables = {std::move(table)}};
}

}  // namespace heed
