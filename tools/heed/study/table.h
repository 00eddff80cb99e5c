// Tables of results: the same in the terminal, in --json and on the page.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "nn/io/json.h"

namespace heed {

struct StudyTable {
  struct Column {
    std::string name, unit = {};
  };
  using Cell = std::variant<std::string, double>;

  std::string title, what;  ///< what: how to read it
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

/// [{title, what, columns: [{name, unit}], rows: [[text, number or null]]}]
nn::Json tables_json(const std::vector<StudyTable>& tables);

/// In columns, numbers with four digits, "-" for one that is not finite; no more than `rows` of
/// them, and how many there are.
std::string table_text(const StudyTable& table, std::size_t rows = 24);

}  // namespace heed
