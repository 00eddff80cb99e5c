// Formats reports as text of at most 80 columns.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "tools/heed/report/report.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

constexpr std::size_t kWidth = 80;

// Returns true for the first byte of a code point.
bool is_start(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Returns the number of code points.
std::size_t width_of(std::string_view text) {
  return std::size_t(std::count_if(text.begin(), text.end(), is_start));
}

// Replaces the middle of a text by an ellipsis, unless it has at most `width` code points. Paths
// and lists of options often differ at an end.
std::string shortened(const std::string& text, std::size_t width) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_start(text[i])) starts.push_back(i);
  if (starts.size() <= width) return text;
  const std::size_t end = width / 2;  // code points after the ellipsis
  return text.substr(0, starts[width - 1 - end]) + "…" + text.substr(starts[starts.size() - end]);
}

std::string number_text(double x, std::string_view format) {
  if (std::isnan(x)) return "-";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  if (format == "bytes") return bytes_text(x);
  if (format == "seconds") return seconds_text(x);
  if (format == "si") return si_text(x);
  if (format == "commas") return with_commas(std::llround(x));
  if (format == "percent") return fmt::format("{:.2f} %", 100 * x);
  return fmt::vformat(format.empty() ? "{:.4g}" : format, fmt::make_format_args(x));
}

std::string text_of(const Value& value, const Column& column) {
  return value.visit([&]<class T>(const T& x) -> std::string {
    if constexpr (std::same_as<T, std::nullptr_t>) {
      return "-";
    } else if constexpr (std::same_as<T, bool>) {
      return x ? "yes" : "no";
    } else if constexpr (std::integral<T>) {
      return column.format.empty() ? std::to_string(x) : number_text(double(x), column.format);
    } else if constexpr (std::same_as<T, double>) {
      return number_text(x, column.format);
    } else if constexpr (std::same_as<T, Value::Array>) {
      std::string list;
      for (const Value& item : x) list += (list.empty() ? "" : ", ") + text_of(item, column);
      return "[" + list + "]";
    } else if constexpr (std::same_as<T, std::string>) {
      return plot::visible_text(x);
    } else {
      return plot::visible_text(value.dump());
    }
  });
}

// A column of a table as text.
struct TextColumn {
  int drop;                             // Column::drop
  std::string keys;                     // names of its values in JSON
  bool is_right = true;                 // right-aligned, because all cells are numbers
  std::size_t width = 0;                // width of the widest cell
  std::size_t word = 0;                 // width of the widest word
  std::vector<std::string> cells = {};  // the heading, then one cell per row

  void add(const std::string& cell) {
    width = std::max(width, width_of(cell));
    for (const std::string& one : split(cell, ' ')) word = std::max(word, width_of(one));
    cells.push_back(cell);
  }
};

constexpr std::string_view kGap = "  ";

std::size_t width_of(const std::vector<TextColumn>& columns) {
  std::size_t width = 0;
  for (const TextColumn& column : columns) width += kGap.size() + column.width;
  return width - kGap.size();
}

// Returns true if the cell is aligned like a number. This includes a text that starts with a digit:
// "12 / 20", "3.4 %".
bool is_number(const Value& value, const std::string& cell) {
  if (!value.as<std::string>()) return !value.as<Value::Array>();
  return cell.empty() || cell == "nan" || cell == "inf" || cell == "-inf" ||
         cell.find_first_of("0123456789") == 0;
}

std::vector<TextColumn> text_columns(const Table& table) {
  std::vector<TextColumn> columns;
  std::string hidden;  // keys of columns without a label since the last column with a label
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const Column& column = table.columns[c];
    const std::string key(column.key);
    if (column.label.empty()) {
      hidden += (hidden.empty() ? "" : ", ") + key;
      continue;
    }
    TextColumn& text = columns.emplace_back(TextColumn{column.drop, key.empty() ? hidden : key});
    hidden.clear();
    text.add(std::string(column.label) +
             (column.unit.empty() ? "" : fmt::format(" ({})", column.unit)));
    bool is_empty = true;
    for (std::size_t r = 0; r < std::min(table.shown, table.rows.size()); ++r) {
      const Value& value = table.rows[r][c];
      std::string cell = text_of(value, column);
      if (const double* error = column.has_error ? table.rows[r][c + 1].as<double>() : nullptr;
          error && !std::isnan(*error))
        cell += " ± " + number_text(*error, column.format);
      text.add(cell);
      is_empty &= cell.empty() || cell == "-";
      text.is_right &=
          column.format != "text" && is_number(value, cell) && (c > 0 || !value.as<std::string>());
    }
    if (!table.text_row.empty()) text.add(text_of(table.text_row[c], column));
    if (is_empty) columns.pop_back();
  }
  return columns;
}

// Returns the position at which the last column starts.
std::size_t last_start(const std::vector<TextColumn>& columns) {
  return width_of(columns) - columns.back().width;
}

// Returns true if the cells of the last column are wrapped.
bool last_wraps(const std::vector<TextColumn>& columns) {
  const std::size_t room = kWidth - std::min(kWidth, last_start(columns));
  return !columns.back().is_right && room >= std::max<std::size_t>(20, columns.back().word);
}

// Makes the table fit: omits columns that may be omitted, then shortens the widest texts, then
// omits any column but the first. Returns the keys of the omitted columns.
std::string fit_columns(std::vector<TextColumn>& columns) {
  constexpr std::size_t kLeast = 12;  // width of a shortened column
  std::string omitted;
  while (width_of(columns) > kWidth) {
    auto last =
        std::max_element(columns.rbegin(), columns.rend(),
                         [](const TextColumn& a, const TextColumn& b) { return a.drop < b.drop; });
    if (last->drop == 0) {
      if (last_wraps(columns)) break;
      const auto text_width = [](const TextColumn& c) { return c.is_right ? 0 : c.width; };
      const auto widest = std::ranges::max_element(columns, {}, text_width);
      if (text_width(*widest) > kLeast) {
        const std::size_t excess = width_of(columns) - kWidth;
        widest->width = std::max(kLeast, widest->width - std::min(widest->width, excess));
        for (std::string& cell : widest->cells) cell = shortened(cell, widest->width);
        continue;
      }
      last = columns.rbegin();
    }
    omitted = last->keys + (omitted.empty() ? "" : ", ") + omitted;
    columns.erase(std::prev(last.base()));
  }
  return omitted;
}

void append_padded(std::string& line, const std::string& cell, std::size_t width, bool is_right) {
  const std::string blanks(width - std::min(width, width_of(cell)), ' ');
  line += is_right ? blanks + cell : cell + blanks;
}

std::string table_lines(const std::vector<TextColumn>& columns) {
  std::string text;
  for (std::size_t r = 0; r < columns[0].cells.size(); ++r) {
    std::string line;
    for (const TextColumn& column : columns) {
      if (&column != &columns.front()) line += kGap;
      append_padded(line, column.cells[r], column.width, column.is_right);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (last_wraps(columns) ? wrapped(line, last_start(columns)) : line) + "\n";
  }
  return text;
}

// Formats successive fields, with their values aligned.
std::string field_lines(const std::vector<std::pair<const Column*, std::string>>& group) {
  std::size_t width = 0;
  for (const auto& [column, value] : group) width = std::max(width, width_of(column->label));
  std::string text;
  for (const auto& [column, value] : group) {
    std::string line;
    append_padded(line, std::string(column->label), width, false);
    text += wrapped(line + std::string(kGap) + value, width + kGap.size()) + "\n";
  }
  return text;
}

// Wraps each line of the text separately. All lines into which a line is broken have its
// indentation.
std::string paragraph_lines(const std::string& text) {
  std::string lines;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t blanks = line.find_first_not_of(' ');
    lines += wrapped(line, blanks == std::string::npos ? 0 : blanks) + "\n";
  }
  return lines;
}

bool is_shown(const Report::Item& item) {
  if (std::holds_alternative<Value>(item.what)) return !item.column->label.empty();
  const Table* table = std::get_if<Table>(&item.what);
  const auto has_label = [](const Column& column) { return !column.label.empty(); };
  return !table || (!table->rows.empty() && table->shown > 0 &&
                    std::ranges::any_of(table->columns, has_label));
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t hang) {
  std::string lines;
  std::size_t used = 0, at = 0;  // columns used in this line; byte in `text`
  const std::string indent = "\n" + std::string(hang, ' ');
  while (at < text.size()) {
    const std::size_t word = std::min(text.find_first_not_of(' ', at), text.size()),
                      end = std::min(text.find_first_of(" \n", word), text.size());
    const std::size_t width = width_of(text.substr(at, end - at));
    if (used > hang && used + width > kWidth) {
      lines += indent;
      used = hang;
      at = word;
      continue;
    }
    lines += text.substr(at, end - at);
    used += width;
    at = end;
    if (at < text.size() && text[at] == '\n') lines += text[at++], used = 0;
  }
  return lines;
}

std::string to_text(const Table& table) {
  std::string text = table.title.empty() ? "" : wrapped(table.title) + "\n";
  std::vector<TextColumn> columns = text_columns(table);
  if (columns.empty()) return text;
  const std::string omitted = fit_columns(columns);
  text += table_lines(columns);
  if (table.shown < table.rows.size())
    text += fmt::format("... {} rows in all; --json prints all of them\n", table.rows.size());
  if (!omitted.empty()) text += wrapped("Also in --json: " + omitted) + "\n";
  return text + (table.note.empty() ? "" : wrapped(table.note) + "\n");
}

// An empty line separates tables, groups of fields and groups of paragraphs.
std::string to_text(const Report& report) {
  std::string text;
  std::size_t kind = std::variant_npos;
  std::vector<std::pair<const Column*, std::string>> group;
  const auto end_group = [&] {
    if (!group.empty()) text += field_lines(group);
    group.clear();
  };
  for (const Report::Item& item : report.items()) {
    if (!is_shown(item)) continue;
    const Table* table = std::get_if<Table>(&item.what);
    if (item.what.index() != kind || table) {
      end_group();
      if (!text.empty()) text += "\n";
    }
    kind = item.what.index();
    if (table) {
      text += to_text(*table);
    } else if (const auto* paragraph = std::get_if<Report::Text>(&item.what)) {
      text += paragraph->wraps ? paragraph_lines(paragraph->text) : paragraph->text;
      if (!text.ends_with('\n')) text += "\n";
    } else {
      std::string value = text_of(std::get<Value>(item.what), *item.column);
      if (!item.column->unit.empty()) value += " " + std::string(item.column->unit);
      group.emplace_back(item.column, value);
    }
  }
  end_group();
  return text;
}

}  // namespace heed
