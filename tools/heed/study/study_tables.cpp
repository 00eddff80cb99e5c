#include "tools/heed/study/study_tables.h"

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
    columns.insert(columns.end(), {{"cut"}, {"saturated"}, {"", "cut"}});
    return columns;
  }();
  return {all.data(), all.size()};
}

void add_heads(Table& table, const nn::Study& s) {
  bool unscored = false, cut = true, saturated = false;
  for (const nn::HeadReport& h : s.heads) {
    const bool marked = h.is_saturated().value_or(false);
    std::vector<Value> row{h.layer, h.head, nn::head_name(h)};
    for (const nn::HeadQuantity& q : nn::head_quantities()) row.push_back(h.*q.value);
    row.insert(row.end(), {h.cut, h.is_saturated(),
                           h.cut ? fmt::format("{:+.3g}{}", *h.cut, marked ? "*" : "") : "-"});
    table.add(std::move(row));
    unscored = unscored || !std::isfinite(h.previous_token + h.duplicate_token + h.induction);
    cut = cut && h.cut, saturated = saturated || marked;
  }
  if (unscored) table.note = "-: no value, because no token occurs twice in this sequence\n";
  table.note +=
      "prev, dup, ind: weight on the token before, on earlier copies of the token, on the tokens "
      "that followed those copies\n";
  table.note += "cut: L without the head (its output set to 0), minus L";
  if (!cut) table.note += "; not measured here, because it would take long: use --ablate all";
  if (saturated)
    table.note +=
        "\n*: saturated: on this sequence, the cut does not have the sign that the gradient "
        "estimates";
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
