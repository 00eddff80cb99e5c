#include "tools/heed/study/study_tables.h"

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
    columns.insert(columns.end(), {{"needed", "needed", "", "{:+.3g}"},
                                   {"suffices", "suffices", "", "{:+.3g}"},
                                   {"predicted"},
                                   {"mark", "mark"}});
    return columns;
  }();
  return {all.data(), all.size()};
}

void add_heads(Table& table, const nn::Study& s, const HeadStudy& effects) {
  bool unscored = false;
  const auto row_of = [](const nn::HeadReport& h, const std::string& name) {
    std::vector<Value> row{h.layer, h.head, name};
    for (const nn::HeadQuantity& q : nn::head_quantities()) row.push_back(h.*q.value);
    return row;
  };
  for (std::size_t i = 0; i < s.heads.size(); ++i) {
    nn::HeadReport h = s.heads[i];
    if (!effects.score_sequences.empty())
      for (const auto score : kCopyScores) h.*score = effects.measured->heads[i].report.*score;
    std::vector<Value> row = row_of(h, nn::head_name(h));
    std::vector<Value> cells(4);
    if (effects.measured) {
      const nn::EffectRow e = effects.measured->heads[i].row();
      cells = {e.effect.mean, e.suffices->mean, e.predicted, effects.mark(i)};
    }
    row.insert(row.end(), cells.begin(), cells.end());
    table.add(std::move(row));
    unscored = unscored || !std::isfinite(h.previous_token + h.duplicate_token + h.induction);
  }
  nn::HeadReport uniform = s.uniform;
  if (!effects.score_sequences.empty())
    for (const auto score : kCopyScores) uniform.*score = effects.measured->uniform.*score;
  table.text_row = row_of(uniform, "uniform");
  table.text_row.resize(table.columns.size());
  if (unscored) table.note = "-: no value, because no token occurs twice in this sequence\n";
  table.note +=
      "prev, dup, ind: weight on the token before, on earlier copies of the token, on the tokens "
      "that followed those copies. gain: sum of A (1 - A), 0 for one-hot weights. uniform: what "
      "equal weights would score.";
  if (!effects.score_sequences.empty())
    table.note += fmt::format(" prev, dup and ind are those on {}.", effects.score_sequences);
  if (effects.measured)
    table.note += fmt::format(" needed, suffices and mark: see the effects of heads, on {}.",
                              effects.sample ? effects.sample->sequences
                                             : fmt::format("{} sequences of the task",
                                                           effects.measured->value.sequences));
}

std::string drawn_weights(const nn::Study& s, const std::vector<std::string>& labels) {
  static constexpr char kShades[] = " .:-=+*#%@";
  std::string text;
  for (const nn::HeadReport& h : s.heads) {
    const nn::Tensor& pattern = s.layers[std::size_t(h.layer)].pattern;
    text += fmt::format("{}{}: each row a query, each column a key; darkest is 1\n",
                        text.empty() ? "" : "\n", nn::head_name(h));
    for (std::int64_t i = 0; i < pattern.size(2); ++i) {
      std::string line;
      for (std::int64_t j = 0; j <= i; ++j)
        line += kShades[std::clamp(int(float(pattern.at({0, h.head, i, j})) * 10), 0, 9)];
      text += fmt::format("{:>4} {}\n", labels[std::size_t(i)], line);
    }
  }
  return text;
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
