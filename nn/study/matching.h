// Heads of two runs that correspond to each other, and the difference of their studies.
#pragma once

#include <optional>
#include <vector>

#include "nn/study/study.h"
#include "nn/train/config.h"

namespace heed::nn {

/// A head of run A and the corresponding head of run B.
struct HeadMatch {
  HeadIndex a;                 ///< head of run A
  std::optional<HeadIndex> b;  ///< head of run B; no value if run B has fewer heads in this layer
  double cosine;               ///< cosine of the mean patterns of both; 0 without `b`
  /// True if `b` has a value and either the runs begin with equal weights or the cosine is at least
  /// 0.7. Otherwise B minus A has no meaning.
  bool is_close;
};

/// Returns whether two runs begin with equal weights: draws the initial weights of both
/// configurations again. `task_a` and `task_b` are their tasks.
bool equal_at_start(const RunConfig& a, const Task& task_a, const RunConfig& b, const Task& task_b);

/// Matches the heads of each layer that both models have. Returns one match for each head of A,
/// ordered by layer, then by head. If `same_heads` is true, the runs begin with equal weights, and
/// a head corresponds to that with the same index. Otherwise the pair of heads with the largest
/// cosine is matched first, then the pair with the largest cosine among the remaining heads, and
/// so on. The cosine compares the attention weights of two heads, averaged over the sequences of
/// inputs [B, T]. Both models must be able to read `inputs`. Throws NumericError if a cosine is
/// not finite.
std::vector<HeadMatch> match_heads(const Transformer& a, const Transformer& b, const Tensor& inputs,
                                   bool same_heads);

/// Returns B minus A of the maps of map_quantities(), for the heads of A whose match is close. A
/// score is -inf where both runs mask a cell, and in all cells of a head without a close match. `a`
/// and `b` are studies of one sequence [1, T]. Study::value is L of B minus L of A. Leaves the
/// remaining members empty.
Study difference_of(const Study& a, const Study& b, const std::vector<HeadMatch>& matches);

}  // namespace heed::nn
