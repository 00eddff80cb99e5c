#include "tools/heed/study/study_tables.h"

#include <cmath>

#include "nn/layers/sites.h"
#include "nn/study/head_importance.h"

namespace heed {

Columns head_columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> columns{{"layer"}, {"head"}, {"", "head"}};
    for (const nn::HeadQuantity& q : nn::head_quantities())
      columns.push_back({.key = q.name,
                         .label = q.column.heading,
                         .format = q.column.format,
                         .drop = q.column.drop});
    columns.insert(columns.end(), {{"cut"}, {"saturated"}, {"", "cut"}});
    return columns;
  }();
  return {all.data(), all.size()};
}

std::pair<Value, Value> cut_of(const nn::Study& s, const std::vector<nn::Effect>& cuts,
                               std::size_t i) {
  if (cuts.empty()) return {};
  return {cuts[i].mean, nn::is_saturated(s.heads[i].importance, cuts[i].mean)};
}

void add_heads(Table& table, const nn::Study& s, const std::vector<nn::Effect>& cuts) {
  bool unscored = false, saturated = false;
  for (std::size_t i = 0; i < s.heads.size(); ++i) {
    const nn::HeadReport& h = s.heads[i];
    const auto [cut, denied] = cut_of(s, cuts, i);
    const bool marked = denied == true;
    std::vector<Value> row{h.layer, h.head, nn::head_name({h.layer, h.head})};
    for (const nn::HeadQuantity& q : nn::head_quantities()) row.push_back(h.*q.value);
    row.insert(row.end(),
               {cut, denied,
                cuts.empty() ? "-" : fmt::format("{:+.3g}{}", cuts[i].mean, marked ? "*" : "")});
    table.add(std::move(row));
    unscored = unscored || !std::isfinite(h.previous_token + h.duplicate_token + h.induction);
    saturated = saturated || marked;
  }
  if (unscored) table.note = "-: nothing to measure, as no token occurs twice here\n";
  table.note += "cut: what L is more by without the head";
  if (cuts.empty()) table.note += "; not measured, it would take long: --ablate all does";
  if (saturated)
    table.note +=
        "\n*: saturated: on this sequence, cutting the head does not do what its gradient says";
}

Table sequences_table(const nn::Study& study, const std::string& objective) {
  static const std::vector<Column> columns = [] {
    std::vector<Column> shown{{"", "head"}};
    for (const nn::HeadQuantity& q : nn::head_quantities())
      if (q.text & q.kSequences)
        shown.push_back({.key = "",
                         .label = q.name,
                         .unit = q.unit,
                         .drop = int(q.name.size() + q.unit.size())});  // the widest first
    return shown;
  }();
  Table t(columns);
  t.title = "Heads over sequences";
  t.note = fmt::format(
      "means over the first {} of the evaluation set, L is {}; importance is dL/dg, "
      "absolute_importance the mean of |dL/dg|",
      study.embed.size(0), objective);
  for (const nn::HeadReport& h : study.heads) {
    std::vector<Value> row{nn::head_name({h.layer, h.head})};
    for (const nn::HeadQuantity& q : nn::head_quantities())
      if (q.text & q.kSequences) row.push_back(h.*q.value);
    t.add(std::move(row));
  }
  return t;
}

Value tables_json(const std::vector<Table>& tables) {
  Value all = Value::array();
  for (const Table& table : tables) {
    Table columns(kNameAndUnit);
    for (const Column& c : table.columns) columns.add({c.label, c.unit});
    all.push_back(object_of(kTableKeys, {table.title, table.note, list_of(columns), table.rows}));
  }
  return all;
}

}  // namespace heed
