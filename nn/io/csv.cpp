#include "nn/io/csv.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/limits.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {
namespace {

using Fields = std::vector<std::string>;

// Returns the number in a field, NaN for an empty field, and nullopt for any other text.
std::optional<double> csv_number(std::string_view field) {
  const std::size_t first = field.find_first_not_of(" \t");
  if (first == field.npos) return std::numeric_limits<double>::quiet_NaN();
  field = field.substr(first, field.find_last_not_of(" \t") - first + 1);
  if (field.starts_with('+') && field.size() > 1 && field[1] != '-') field.remove_prefix(1);
  return heed::parse_number<double>(field);
}

bool is_name(const std::string& field) { return !csv_number(field); }

// Reads the lines of a CSV file one after the other.
class CsvLines {
 public:
  CsvLines(const std::string& path, std::string_view text) : path_(path), rest_(text) {
    // Some spreadsheet programs write a byte order mark at the start of a UTF-8 file.
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  bool done() const { return rest_.empty(); }
  std::int64_t number() const { return line_; }  // number of the last line that was read, from 1
  Fields next() {
    ++line_;
    Fields fields;
    do fields.push_back(field());
    while (accept(',') && fields.size() <= kMaxCsvColumns);
    if (fields.size() > kMaxCsvColumns) refuse("it has more than ", kMaxCsvColumns, " fields");
    accept('\r');
    if (!rest_.empty() && !accept('\n')) refuse("there is text between a quoted field and a comma");
    return fields;
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    heed::fail<autograd::IoError>("load_csv", "cannot read ", path_, ", line ", line_, ": ",
                                  parts...);
  }

 private:
  bool accept(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string field() {
    std::string text;
    if (!accept('"')) {
      text = rest_.substr(0, std::min(rest_.find_first_of(",\r\n"), rest_.size()));
      rest_.remove_prefix(text.size());
      return text;
    }
    for (;;) {  // in a quoted field, two quotes stand for one
      const std::size_t quote = rest_.find('"');
      if (quote == rest_.npos) refuse("a quote has no end");
      text += rest_.substr(0, quote);
      rest_.remove_prefix(quote + 1);
      if (!accept('"')) return text;
      text += '"';
    }
  }

  const std::string& path_;
  std::string_view rest_;
  std::int64_t line_ = 0;
};

// Returns true if the first line contains column names. This is so if one of its fields is not a
// number, where the first of several fields is ignored.
bool names_columns(const Fields& fields) {
  const auto second = fields.begin() + std::ptrdiff_t(fields.size() > 1 ? 1 : 0);
  return std::any_of(second, fields.end(), is_name);
}

// Returns true if the first fields of the lines are row names. If the file has no column names,
// either all or none of these fields must be names, because a single name among numbers is probably
// a misspelled number.
bool names_rows(CsvLines lines) {
  if (lines.done()) return false;
  Fields fields = lines.next();
  const bool has_header = names_columns(fields);
  if (has_header && lines.done()) return false;
  if (has_header) fields = lines.next();
  const bool named = is_name(fields[0]);
  bool any_named = named;
  while (!lines.done()) {
    fields = lines.next();
    if (fields[0].empty()) continue;
    any_named |= is_name(fields[0]);
    if (!has_header && is_name(fields[0]) != named)
      lines.refuse(
          "its first field, ", safetensors::quoted(fields[0]), ", is ",
          named ? "a number, but that of line 1 is not" : "not a number, but that of line 1 is",
          "; use names in all rows or in none, or begin with a line of column names");
  }
  return any_named;
}

void add_row(CsvMatrix& m, const CsvLines& lines, const Fields& fields, std::size_t first) {
  const auto cols = std::int64_t(fields.size() - first);
  if (m.rows > 0 && cols != m.cols)
    lines.refuse("it has ", cols, " numbers, but the lines before it have ", m.cols);
  for (std::size_t i = first; i < fields.size(); ++i) {
    const auto value = csv_number(fields[i]);
    if (!value) lines.refuse(safetensors::quoted(fields[i]), " is not a number");
    m.values.push_back(*value);
  }
  m.cols = cols;
  ++m.rows;
}

}  // namespace

CsvMatrix load_csv(const std::string& path) {
  return parse_csv(autograd::read_file(path, kMaxCsvBytes), path);
}

CsvMatrix parse_csv(std::string_view text, const std::string& path) {
  CsvLines lines(path, text);
  const auto first = std::size_t(names_rows(lines));
  CsvMatrix m;
  while (!lines.done()) {
    Fields fields = lines.next();
    const bool empty = fields.size() == 1 && fields[0].empty();
    if (empty && lines.done()) break;  // an empty last line is ignored
    if (fields.size() == first) lines.refuse("it has no numbers");
    if (lines.number() == 1 && names_columns(fields)) {
      m.col_names.assign(fields.begin() + std::ptrdiff_t(first), fields.end());
      m.cols = std::int64_t(m.col_names.size());
      continue;
    }
    if (first == 1) m.row_names.push_back(fields[0]);
    add_row(m, lines, fields, first);
  }
  if (m.rows == 0) lines.refuse("the file has no numbers");
  if (!m.col_names.empty() && std::int64_t(m.col_names.size()) != m.cols)
    lines.refuse("the first line names ", m.col_names.size(), " columns, but the rows have ",
                 m.cols);
  return m;
}

}  // namespace heed::nn
