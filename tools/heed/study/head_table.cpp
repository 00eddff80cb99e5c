#include "tools/heed/study/head_table.h"

#include <algorithm>
#include <cmath>

namespace heed {

std::vector<Column> head_columns() {
  std::vector<Column> columns{{"head"}};
  for (const nn::HeadQuantity& q : nn::head_quantities()) {
    const auto& [heading, format, in_text] = q.column;
    columns.push_back({std::string(heading.empty() ? q.name : heading), "", std::string(format),
                       in_text && !heading.empty()});
  }
  columns.push_back({"mark"});
  return columns;
}

std::vector<Value> head_row(const nn::HeadReport& h, const std::string& name, Value mark) {
  std::vector<Value> row{name};
  row.insert(row.end(), h.values.begin(), h.values.end());
  row.push_back(std::move(mark));
  return row;
}

Value heads_json(StudyContext& c) {
  Value list = Value::array();
  const std::vector<nn::HeadReport> reports = c.reports();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    Value entry = Value::object({{"layer", reports[i].layer}, {"head", reports[i].head}});
    for (const nn::HeadQuantity& q : nn::head_quantities())
      entry.append(std::string(q.name), reports[i][q.quantity]);
    entry.append("mark", c.mark(i));
    list.push_back(entry);
  }
  return list;
}

Table head_table(StudyContext& c) {
  Table table{.columns = head_columns()};
  const std::vector<nn::HeadReport> reports = c.reports();
  bool unscored = false;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const nn::HeadReport& h = reports[i];
    table.rows.push_back(head_row(h, nn::head_name(h), c.mark(i)));
    unscored |= !std::isfinite(h[nn::kPreviousToken] + h[nn::kDuplicateToken] + h[nn::kInduction]);
  }
  table.rows.push_back(head_row(c.uniform(), "uniform", Value("")));
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
  return table;
}

}  // namespace heed
