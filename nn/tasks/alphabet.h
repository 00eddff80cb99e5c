// The symbols of tasks whose tokens are random letters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/tasks/vocabulary.h"

namespace heed::nn {

/// Returns a vocabulary of the first n letters of a-z A-Z. If `special` is not empty, it is the
/// last symbol (BOS or a separator). Requires 0 <= n <= 52.
inline Vocabulary letters(std::int64_t n, const std::string& special) {
  std::vector<std::string> symbols;
  for (std::int64_t i = 0; i < n; ++i)
    symbols.emplace_back(1, char(i < 26 ? 'a' + i : 'A' + (i - 26)));
  if (!special.empty()) symbols.push_back(special);
  return Vocabulary(std::move(symbols));
}

}  // namespace heed::nn
