// Results of commands as values, and the three ways to write them: text, JSON and CSV.
//
// A command declares the keys of its result as constexpr Columns next to the code that fills them:
//   constexpr Column kRun[] = {{"run", "run"}, {"loss", "eval loss", "", "{:.4f}"}, {"date"}};
//   constexpr Column kKeys[] = {rows("runs", kRun), {"seconds"}};
// `--help` lists the keys of --json from them, and returns a Report:
//   Report report(kKeys);
//   Table& table = report.table("runs");
//   table.add({run.folder, run.loss, run.date});
//   report.set("seconds", seconds);
//   return report;
#pragma once

#include <fmt/core.h>

#include <array>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nn/io/json.h"
#include "tools/heed/report/output.h"

namespace heed {

using Value = nn::Json;
struct Column;

/// A view of declared columns. The columns must outlive it.
class Columns {
 public:
  constexpr Columns() = default;
  template <std::size_t N>
  constexpr Columns(const Column (&list)[N]) : first_(list), size_(N) {}
  template <std::size_t N>
  constexpr Columns(const std::array<Column, N>& list) : first_(list.data()), size_(N) {}
  Columns(const Column* first, std::size_t size) : first_(first), size_(size) {}

  constexpr std::size_t size() const { return size_; }
  constexpr const Column* begin() const { return first_; }
  constexpr const Column* end() const;
  constexpr const Column& operator[](std::size_t i) const;
  /// The column of this key, or null.
  const Column* find(std::string_view key) const;

 private:
  const Column* first_ = nullptr;
  std::size_t size_ = 0;
};

/// One key of a result: a field of a report or a column of a table. The texts must outlive it.
struct Column {
  std::string_view key = "";    ///< in JSON and CSV; empty: only in text
  std::string_view label = "";  ///< heading or label in text; empty: not in text
  std::string_view unit = "";   ///< behind the label or the value in text
  /// How text shows a number: an fmt format ("{:.3f}"), or one of bytes, commas, percent (of a
  /// fraction), seconds, si. Empty: integers with all digits, others with four.
  std::string_view format = "";
  /// Text wider than 80 columns drops the columns of the largest number first; never those of 0.
  int drop = 0;
  Columns inside = {};  ///< keys of the object, or of the table's rows, that is the value
  bool is_table = false;
};

constexpr const Column* Columns::end() const { return first_ + size_; }
constexpr const Column& Columns::operator[](std::size_t i) const { return first_[i]; }

/// A key whose value is a table with these columns.
constexpr Column rows(std::string_view key, Columns columns) {
  return {.key = key, .inside = columns, .is_table = true};
}
/// A key whose value is an object with these keys.
constexpr Column fields(std::string_view key, Columns keys) { return {.key = key, .inside = keys}; }

/// The columns of several declarations in one array.
template <std::size_t... N>
constexpr auto joined(const Column (&... lists)[N]) {
  std::array<Column, (N + ...)> all{};
  std::size_t at = 0;
  const auto append = [&](const auto& list) {
    for (const Column& column : list) all[at++] = column;
  };
  (append(lists), ...);
  return all;
}

/// Rows of cells, one cell for each column. Text leaves out columns without any value.
struct Table {
  explicit Table(Columns columns_) : columns(columns_) {}
  /// Of columns that are known at run time only.
  explicit Table(const std::vector<Column>& list)
      : own(std::make_shared<std::vector<Column>>(list)), columns(own->data(), own->size()) {}

  std::shared_ptr<const std::vector<Column>> own = {};  ///< the columns, unless they are declared
  Columns columns;
  std::string title = {}, note = {};  ///< lines above and below the table in text
  std::size_t shown = SIZE_MAX;       ///< number of rows in text
  std::vector<std::vector<Value>> rows = {};

  /// Throws std::logic_error unless there is a cell for each column.
  void add(std::vector<Value> cells);
};

/// An object with these keys and values, in order. Throws std::logic_error if their numbers differ.
Value object_of(Columns keys, const std::vector<Value>& values);
/// A number of a text table in which NaN is a finding: "nan". Text shows other NaN as "-", unknown.
Value with_nan(double x);
/// A list with an object for each row.
Value list_of(const Table& table);

/// The result of a command. JSON has the declared keys in their order, null where nothing was set;
/// text has the items in the order in which they were added. Without keys, JSON prints nothing.
class Report {
 public:
  struct Text {
    std::string text;
    bool wraps;
  };
  struct Item {
    const Column* column = nullptr;  ///< null: only in text
    std::variant<Value, Table, Text> what;
  };

  Report() = default;
  /// A report without keys: nothing is printed.
  static Report failed(ExitCode code) {
    Report report;
    report.exit_code = code;
    return report;
  }
  explicit Report(Columns keys) : keys_(keys) {}

  // Each throws std::logic_error for a key that is not declared, or is set already.

  /// Sets a field. It is in text if its column has a label.
  void set(std::string_view key, Value value);
  /// Adds the table of this key. The reference stays valid.
  Table& table(std::string_view key);
  /// Adds a table for text alone.
  Table& text_table(Table table);
  Table& text_table(Columns columns) { return text_table(Table(columns)); }
  /// Sets the key "files"; text has a line for each.
  void files(const std::vector<std::filesystem::path>& files);

  /// Adds a paragraph for text alone, which wraps at 80 columns.
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    items_.push_back({nullptr, Text{fmt::format(text, std::forward<Args>(args)...), true}});
  }
  /// Adds lines for text alone as they are: drawings made of characters.
  void block(std::string text) { items_.push_back({nullptr, Text{std::move(text), false}}); }

  /// The result is printed, then `why` as an error, and the program exits with this code.
  void fail(ExitCode code, std::string why = "") { exit_code = code, error = std::move(why); }

  Columns keys() const { return keys_; }
  const std::deque<Item>& items() const { return items_; }
  /// The item of this key, or null.
  const Item* find(std::string_view key) const;

  ExitCode exit_code = kOk;
  std::string error = {};  ///< printed to stderr after the result

 private:
  const Column& declared(std::string_view key) const;

  Columns keys_;
  std::deque<Item> items_;
};

// Each ends with a newline, unless it is empty.

/// At most 80 columns wide, if no name or drawing is wider.
std::string to_text(const Report& report);
std::string to_text(const Table& table);
/// One object on one line. Numbers that are not finite are null.
std::string to_json(const Report& report);
/// The keys of the columns, and a line for each row. What is null or not finite is empty. Tables
/// inside are left out.
std::string to_csv(const Table& table);
/// The first table with a key, as CSV.
std::string to_csv(const Report& report);

/// "task heads (layer head)": the keys, those of objects and rows in parentheses.
std::string keys_text(Columns keys);

/// The text in lines of at most 80 code points, if no word is longer. Lines after the first start
/// with `hang` blanks.
std::string wrapped(std::string_view text, std::size_t hang = 0);

}  // namespace heed
