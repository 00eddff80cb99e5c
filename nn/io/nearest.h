// The nearest of some names, for errors: "no task 'indution', the nearest is 'induction'".
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

/// Fewest insertions, deletions and substitutions that turn a into b (Levenshtein 1966).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // distances of a's first i bytes to each start of b
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// The candidate that `name` begins, else the one at the smallest edit distance; the first of
/// equals. "" if there are no candidates.
inline std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const auto cost = [&](const std::string& c) {
    return !name.empty() && c.starts_with(name) ? 0 : 1 + edit_distance(name, c);
  };
  const auto best = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const std::string& a, const std::string& b) { return cost(a) < cost(b); });
  return best == candidates.end() ? std::string() : *best;
}

}  // namespace heed::nn
