// Matrices as CSV (RFC 4180): numbers between commas, a line a row, with or without names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

struct CsvMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;                     ///< [rows, cols]
  std::vector<std::string> row_names, col_names;  ///< one each, or none
};

/// Reads a table of numbers; nan, inf and -inf are some, an empty field is nan. A first line in
/// which anything behind its first field is no number names the columns; a first field that is no
/// number, of any later line, says that first fields name the rows. Names may be quoted. IoError
/// with path, line and reason: a field that is no number (without names of columns also a first one
/// where that of line 1 is a number, or the other way round), lines of different lengths, no
/// numbers at all, a quote without end, more than 32 MB.
CsvMatrix load_csv(const std::string& path);
/// The same of a file's contents, of any size; `path` is what errors name.
CsvMatrix parse_csv(std::string_view text, const std::string& path);

}  // namespace heed::nn
