// Reads matrices from CSV files (RFC 4180), with or without names of rows and columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

/// Matrix read from a CSV file.
struct CsvMatrix {
  std::int64_t rows = 0;               ///< number of rows
  std::int64_t cols = 0;               ///< number of columns
  std::vector<double> values;          ///< shape [rows, cols], row-major
  std::vector<std::string> row_names;  ///< one per row; empty if the file has no row names
  std::vector<std::string> col_names;  ///< one per column; empty if the file has no column names
};

/// Reads a matrix of numbers. "nan", "inf" and "-inf" are numbers, and an empty field is NaN. Names
/// may be quoted. The first line contains column names if it has a field that is not a number. (If
/// the line has several fields, its first field is ignored here.) The first fields of all other
/// lines are row names if any of these fields is not a number.
///
/// Throws IoError with path, line and reason for a field that is not a number, for lines of
/// different lengths, for a file without numbers, for a quote without an end, and for a file that
/// exceeds a limit (nn/io/limits.h). If the file has no column names, it also throws if only some
/// of the first fields are numbers.
CsvMatrix load_csv(const std::string& path);
/// Parses the contents of a CSV file of any size, like load_csv(). `path` is only used in error
/// texts.
CsvMatrix parse_csv(std::string_view text, const std::string& path);

}  // namespace heed::nn
