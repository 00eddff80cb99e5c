// Results of commands as values, and functions that write them as text or JSON.
//
// A command declares the keys of its result as constexpr Columns beside the code that fills them:
//   constexpr Column kRun[] = {{"run", "run"}, {"loss", "loss", "nats", "{:.4f}"}, {"date"}};
//   constexpr Column kKeys[] = {rows("runs", kRun), {"seconds"}};
// `--help all` lists the keys of --json from this declaration. The command then returns a Report:
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
#include <functional>
#include <memory>
#include <optional>
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

/// A view of declared columns. The columns must outlive the view.
class Columns {
 public:
  constexpr Columns() = default;
  template <std::size_t N>
  constexpr Columns(const Column (&list)[N]) : first_(list), size_(N) {}
  template <std::size_t N>
  constexpr Columns(const std::array<Column, N>& list) : first_(list.data()), size_(N) {}
  Columns(const std::vector<Column>& list);

  constexpr std::size_t size() const { return size_; }
  constexpr const Column* begin() const { return first_; }
  constexpr const Column* end() const;
  constexpr const Column& operator[](std::size_t i) const;
  /// Returns the column of this key, or null.
  const Column* find(std::string_view key) const;

 private:
  const Column* first_ = nullptr;
  std::size_t size_ = 0;
};

/// One key of a result: a field of a report or a column of a table. The texts must outlive the
/// object.
struct Column {
  std::string_view key = "";    ///< key in JSON and CSV; empty: only in text
  std::string_view label = "";  ///< heading or label in text; empty: not in text
  std::string_view unit = "";   ///< unit; text shows it
  /// Format of a number in text: an fmt format ("{:.3f}"), or bytes, commas, percent (of a
  /// fraction), seconds or si. If it is empty, integers have all their digits and other numbers
  /// have four significant digits. "text": the column is left-aligned, even if its texts start with
  /// digits.
  std::string_view format = "";
  /// If a table is wider than 80 characters, text omits columns, those with the largest `drop`
  /// first. It omits a column whose `drop` is 0 only if shorter cells do not suffice.
  int drop = 0;
  Columns inside = {};    ///< keys of the value, if it is an object or a table
  bool is_table = false;  ///< true: the value is a table with the columns `inside`
  /// true: the next column is the standard error, which text appends: "0.12 ± 0.01"
  bool has_error = false;
};

inline Columns::Columns(const std::vector<Column>& list)
    : first_(list.data()), size_(list.size()) {}
constexpr const Column* Columns::end() const { return first_ + size_; }
constexpr const Column& Columns::operator[](std::size_t i) const { return first_[i]; }

/// Declares a key whose value is a table with these columns.
constexpr Column rows(std::string_view key, Columns columns) {
  return {.key = key, .inside = columns, .is_table = true};
}
/// Declares a key whose value is an object with these keys.
constexpr Column fields(std::string_view key, Columns keys) { return {.key = key, .inside = keys}; }

/// Joins several declarations into one array.
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

/// Rows of cells, one cell per column. Text omits a column in which every cell is empty or unknown.
struct Table {
  explicit Table(Columns columns_) : columns(columns_) {}
  /// Creates a table whose columns are known only at run time. Their keys and labels are copied.
  explicit Table(const std::vector<Column>& list, std::string title_ = {},
                 std::size_t shown_ = SIZE_MAX);

  /// Columns made at run time, and their texts.
  struct Own {
    std::vector<Column> columns;
    std::deque<std::string> texts = {};  // a deque, because its elements do not move
  };
  std::shared_ptr<const Own> own = {};  ///< null if the columns are declared
  Columns columns;
  std::string title = {}, note = {};  ///< lines above and below the table in text
  std::size_t shown = SIZE_MAX;       ///< largest number of rows in text; 0: no table
  std::vector<std::vector<Value>> rows = {};
  std::vector<Value> text_row = {};  ///< a row after the others that only text shows, or empty

  /// Adds a row. Throws std::logic_error unless there is one cell per column.
  void add(std::vector<Value> cells);
};

/// Returns an object with these keys and values, in order. Throws std::logic_error unless there is
/// one value per key.
Value object_of(Columns keys, const std::vector<Value>& values);
/// Returns a cell that text shows as "nan" if `x` is NaN. Use it where NaN is a valid result. In
/// any other cell, NaN means "unknown" and text shows "-".
Value with_nan(double x);
/// Returns the table as a list with one object per row.
Value list_of(const Table& table);

/// The result of a command. JSON contains the declared keys in the order of their declaration. The
/// value of a key that was not set is null. Text contains the items in the order in which they were
/// added. A report without keys prints nothing as JSON.
class Report {
 public:
  /// A paragraph or a block of lines that appears only in text.
  struct Text {
    std::string text;
    bool wraps;  ///< true: wrapped at 80 columns
  };
  /// A field, a table or a text.
  struct Item {
    const Column* column = nullptr;  ///< null: the item has no key and appears only in text
    std::variant<Value, Table, Text> what;
  };

  Report() = default;
  /// Returns a report that prints nothing and ends the program with this code.
  static Report failed(ExitCode code) {
    Report report;
    report.exit_code = code;
    return report;
  }
  explicit Report(Columns keys) : keys_(keys) {}

  // set(), table(), files() and write_files() throw std::logic_error if their key is not declared
  // or is already set.

  /// Sets a field. Text contains it if its column has a label.
  void set(std::string_view key, Value value);
  /// Adds the table of this key. The returned reference stays valid. Throws std::logic_error if the
  /// key is not declared as a table.
  Table& table(std::string_view key);
  /// Adds a table that appears only in text.
  Table& text_table(Table table);
  Table& text_table(Columns columns) { return text_table(Table(columns)); }
  /// Sets the key "files". Text contains one line per file.
  void files(const std::vector<std::filesystem::path>& files);
  /// Calls write() and sets the key "files" to the paths that it returns. If it throws IoError, the
  /// list is empty, and the command fails after its result.
  void write_files(const std::function<std::vector<std::filesystem::path>()>& write);

  /// Adds a paragraph that appears only in text, wrapped at 80 columns.
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    items_.push_back({nullptr, Text{fmt::format(text, std::forward<Args>(args)...), true}});
  }
  /// Adds lines that appear only in text and are not wrapped, such as drawings.
  void block(std::string text) { items_.push_back({nullptr, Text{std::move(text), false}}); }

  /// Marks the command as failed: after the result, the program prints `why` as an error (unless it
  /// is empty) and exits with this code.
  void fail(ExitCode code, std::string why = "") { exit_code = code, error = std::move(why); }

  Columns keys() const { return keys_; }
  const std::deque<Item>& items() const { return items_; }
  /// Returns the item of this key, or null.
  const Item* find(std::string_view key) const;

  ExitCode exit_code = kOk;
  std::string error = {};  ///< printed to stderr after the result

 private:
  // Returns the column of a declared key that is not yet set; throws std::logic_error otherwise.
  const Column& declared(std::string_view key) const;

  Columns keys_;
  std::deque<Item> items_;
};

// The results of the following functions end with a newline, unless they are empty.

/// Formats a report or a table as text of at most 80 columns. Only words of paragraphs and fields,
/// such as paths, and blocks may be wider. A table omits columns and shortens texts until it fits.
std::string to_text(const Report& report);
std::string to_text(const Table& table);
/// Formats a report as one JSON object on one line. Numbers that are not finite are null.
std::string to_json(const Report& report);
/// Formats a table as CSV: a line with the keys of the columns, then one line per row. Values that
/// are null or not finite are empty. Columns that contain objects or tables are left out.
std::string to_csv(const Table& table);

/// Returns the keys as text. The keys of objects and tables are in parentheses: "task heads (layer
/// head)".
std::string keys_text(Columns keys);

/// Breaks the text into lines of at most 80 code points, unless a word is longer. Each line after
/// the first starts with `hang` blanks.
std::string wrapped(std::string_view text, std::size_t hang = 0);

}  // namespace heed
