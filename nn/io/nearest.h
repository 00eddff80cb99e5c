// Finds the name nearest to an unknown name, for errors such as "did you mean 'induction'?".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

/// Returns the smallest number of insertions, deletions and substitutions of bytes that change `a`
/// into `b` (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the first candidate that begins with `name`. If there is none, returns the first
/// candidate with the smallest edit distance to `name`. Returns "" if `candidates` is empty.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// Returns "" if `names` contains `name`. Otherwise returns an error text such as "'x' is not one
/// of a, b or c; did you mean 'b'?".
std::string name_problem(std::string_view name, const std::vector<std::string>& names);

}  // namespace heed::nn
