#include "tools/heed/study/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heed {
namespace {

std::string cell_text(const StudyTable::Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const double number = std::get<double>(cell);
  return std::isfinite(number) ? fmt::format("{:.4g}", number) : "-";
}

std::string head_text(const StudyTable::Column& column) {
  return column.unit.empty() ? column.name : fmt::format("{} ({})", column.name, column.unit);
}

// In code points: what a terminal shows of most texts.
std::size_t width_of(const std::string& text) {
  return std::size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

nn::Json cell_json(const StudyTable::Cell& cell) {
  return std::visit([](const auto& value) { return nn::Json(value); }, cell);
}

}  // namespace

nn::Json tables_json(const std::vector<StudyTable>& tables) {
  nn::Json all = nn::Json::array();
  for (const StudyTable& table : tables) {
    nn::Json columns = nn::Json::array(), rows = nn::Json::array();
    for (const StudyTable::Column& c : table.columns)
      columns.push_back(nn::Json::object({{"name", c.name}, {"unit", c.unit}}));
    for (const auto& row : table.rows) {
      nn::Json cells = nn::Json::array();
      for (const StudyTable::Cell& cell : row) cells.push_back(cell_json(cell));
      rows.push_back(cells);
    }
    all.push_back(nn::Json::object(
        {{"title", table.title}, {"what", table.what}, {"columns", columns}, {"rows", rows}}));
  }
  return all;
}

std::string table_text(const StudyTable& table, std::size_t rows) {
  std::vector<std::vector<std::string>> lines(1);
  for (const StudyTable::Column& c : table.columns) lines[0].push_back(head_text(c));
  for (std::size_t i = 0; i < std::min(rows, table.rows.size()); ++i) {
    lines.emplace_back();
    for (const StudyTable::Cell& cell : table.rows[i]) lines.back().push_back(cell_text(cell));
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c)
      widths[c] = std::max(widths[c], width_of(line[c]));
  std::string text = fmt::format("{}: {}\n", table.title, table.what);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c)
      text += std::string((c ? 2 : 0) + widths[c] - width_of(line[c]), ' ') + line[c];
    text += '\n';
  }
  if (rows < table.rows.size())
    text += fmt::format("... {} rows, all of them in --json\n", table.rows.size());
  return text;
}

}  // namespace heed
