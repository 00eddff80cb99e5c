// Names that exist, and the nearest to one that does not: "no task 'indution'; did you mean
// 'induction'?".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

/// Fewest insertions, deletions and substitutions that turn a into b (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `name` begins, else the one at the smallest edit distance; the first of
/// equals. "" if there are no candidates.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "" if `name` is one of `names`, else "'x' is not one of a, b or c; did you mean 'b'?".
std::string name_problem(std::string_view name, const std::vector<std::string>& names);

}  // namespace heed::nn
