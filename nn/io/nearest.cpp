#include "nn/io/nearest.h"

#include <algorithm>
#include <numeric>

#include "autograd/base/text.h"

namespace heed::nn {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // At the start of iteration i, row[j] is the distance between the first i bytes of `a` and the
  // first j bytes of `b`.
  std::vector<std::size_t> row(b.size() + 1);
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

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const auto cost = [&](const std::string& c) {
    return !name.empty() && c.starts_with(name) ? 0 : 1 + edit_distance(name, c);
  };
  const auto best = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const std::string& a, const std::string& b) { return cost(a) < cost(b); });
  return best == candidates.end() ? std::string() : *best;
}

std::string name_problem(std::string_view name, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return "";
  return "'" + std::string(name) + "' is not one of " + heed::join(names, " or ") +
         "; did you mean '" + nearest(name, names) + "'?";
}

}  // namespace heed::nn
