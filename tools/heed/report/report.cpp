#include "tools/heed/report/report.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace heed {

const Column* Columns::find(std::string_view key) const {
  const Column* found =
      std::find_if(begin(), end(), [&](const Column& column) { return column.key == key; });
  return found == end() ? nullptr : found;
}

Table::Table(const std::vector<Column>& list, std::string title_, std::size_t shown_)
    : title(std::move(title_)), shown(shown_) {
  const auto made = std::make_shared<Own>(Own{list});
  for (Column& column : made->columns)
    for (std::string_view* text : {&column.key, &column.label})
      *text = made->texts.emplace_back(*text);
  own = made;
  columns = made->columns;
}

void Table::add(std::vector<Value> cells) {
  if (cells.size() != columns.size())
    throw std::logic_error(fmt::format("table: a row has {} cells, needs {}; first column '{}'",
                                       cells.size(), columns.size(), columns[0].key));
  rows.push_back(std::move(cells));
}

Value object_of(Columns keys, const std::vector<Value>& values) {
  if (keys.size() != values.size())
    throw std::logic_error(fmt::format("report: an object has {} values, needs {}; first key '{}'",
                                       values.size(), keys.size(), keys[0].key));
  Value object = Value::object();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!keys[i].key.empty()) object.append(std::string(keys[i].key), values[i]);
  return object;
}

Value with_nan(double x) { return std::isnan(x) ? Value("nan") : Value(x); }

Value list_of(const Table& table) {
  Value list = Value::array();
  for (const auto& row : table.rows) list.push_back(object_of(table.columns, row));
  return list;
}

const Column& Report::declared(std::string_view key) const {
  const Column* column = keys_.find(key);
  if (!column) throw std::logic_error(fmt::format("report: the key '{}' is not declared", key));
  if (find(key)) throw std::logic_error(fmt::format("report: the key '{}' is set twice", key));
  return *column;
}

const Report::Item* Report::find(std::string_view key) const {
  for (const Item& item : items_)
    if (item.column && item.column->key == key) return &item;
  return nullptr;
}

void Report::set(std::string_view key, Value value) {
  items_.push_back({&declared(key), std::move(value)});
}

Table& Report::table(std::string_view key) {
  const Column& column = declared(key);
  if (!column.is_table) throw std::logic_error(fmt::format("report: '{}' is not a table", key));
  return std::get<Table>(items_.emplace_back(Item{&column, Table(column.inside)}).what);
}

Table& Report::text_table(Table table) {
  return std::get<Table>(items_.emplace_back(Item{nullptr, std::move(table)}).what);
}

void Report::files(const std::vector<std::filesystem::path>& files) {
  Value names = Value::array();
  for (const auto& file : files) names.push_back(file.string());
  set("files", names);
  std::string lines;
  for (const auto& file : files) lines += file.string() + "\n";
  if (!lines.empty()) block(lines);
}

void Report::write_files(const std::function<std::vector<std::filesystem::path>()>& write) {
  std::vector<std::filesystem::path> written;
  try {
    written = write();
  } catch (const autograd::IoError& e) {
    fail(exit_code == kOk ? kInputOutput : exit_code, error.empty() ? e.what() : error);
  }
  files(written);
}

std::string to_json(const Report& report) {
  if (report.keys().size() == 0) return "";
  Value object = Value::object();
  for (const Column& column : report.keys()) {
    const Report::Item* item = report.find(column.key);
    const auto* table = item ? std::get_if<Table>(&item->what) : nullptr;
    object.append(std::string(column.key), table  ? list_of(*table)
                                           : item ? std::get<Value>(item->what)
                                                  : Value());
  }
  return object.dump() + "\n";
}

namespace {

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_text(const Value& value) {
  if (const auto* text = value.as<std::string>()) return *text;
  if (const auto* items = value.as<Value::Array>()) {
    std::string words;
    for (const Value& item : *items) words += (words.empty() ? "" : " ") + csv_text(item);
    return words;
  }
  const std::string text = value.dump();  // dump() also writes "null" for inf and NaN
  return text == "null" ? "" : text;
}

}  // namespace

std::string to_csv(const Table& table) {
  std::string csv;
  const auto add_line = [&](const auto& cell) {
    bool first = true;
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      if (const Column& column = table.columns[i];
          !column.key.empty() && column.inside.size() == 0) {
        csv += (first ? "" : ",") + csv_quoted(cell(i));
        first = false;
      }
    csv += "\n";
  };
  add_line([&](std::size_t i) { return std::string(table.columns[i].key); });
  for (const auto& row : table.rows) add_line([&](std::size_t i) { return csv_text(row[i]); });
  return csv;
}

std::string keys_text(Columns keys) {
  std::string text;
  for (const Column& column : keys) {
    if (column.key.empty()) continue;
    text += (text.empty() ? "" : " ") + std::string(column.key);
    if (column.inside.size() > 0) text += " (" + keys_text(column.inside) + ")";
  }
  return text;
}

}  // namespace heed
