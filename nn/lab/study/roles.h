// Roles of heads: what a head attends to where it matters, and whether that is all it does.
//
// A pattern is a set of keys F(i) for each query i. Its score is sum_i w_i sum_{j in F(i)} A_ij /
// sum_i w_i, with the weights of Attribution: unweighted scores miss a head that matters at few
// positions. A role is claimed if its score is at least kLeastScore and imposing it keeps L: with
// equal weights on F(i) instead of A, in the rows whose F(i) is not empty, L changes by at most
// 20 % of the effect of the head and two standard errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/lab/study/components.h"
#include "nn/lab/tasks/task.h"

namespace heed::lab {

/// A pattern of attention.
struct Pattern {
  /// Kinds of patterns.
  enum Kind {
    kPrevious,         ///< the token before
    kBack,             ///< the token `distance` before
    kDuplicate,        ///< earlier copies of the token
    kInduction,        ///< the tokens after earlier copies
    kFirst,            ///< the first token
    kCurrent           ///< the token itself
  } kind;              ///< kind of this pattern
  Index distance = 1;  ///< of kBack: keys this far before the query

  /// Returns the name of the role: "previous-token", "12 back".
  std::string name() const;
};
/// Returns the keys of each query of a sequence. Keys outside the window are left out.
std::vector<std::vector<Index>> keys_of(const Pattern& pattern, const std::vector<Index>& tokens,
                                        Index window = 0);

inline constexpr double kLeastScore = 0.6;  ///< of a claimed role

/// A head whose effect counts, with its role and its scores.
struct HeadRole {
  std::size_t row;                                      ///< of ComponentStudy
  HeadIndex head;                                       ///< the head
  std::optional<Pattern> role = {};                     ///< the claimed role
  std::vector<std::pair<Pattern, double>> scores = {};  ///< largest first
  double score = 0;                                     ///< of `role`
  Effect imposed = {};                                  ///< change of L by imposing `role`
  ///@{
  /// The three largest weighted means of A: by distance from the query, and by token.
  std::vector<std::pair<Index, double>> by_distance = {}, by_token = {};
  ///@}
};
/// Returns the roles of the heads whose effects count. If the task predicts its inputs, the roles
/// induction and duplicate token are also confirmed on repeated random tokens, so that a head that
/// attends by position has another role. Unless `claim` is set, returns the scores of all heads,
/// and claims no role.
std::vector<HeadRole> roles_of_heads(const BaseRun& run, const ComponentStudy& study,
                                     const Task* task, bool claim = true);

/// Returns the change of L if a head has the pattern instead of its attention weights.
Effect impose(const BaseRun& run, const HeadIndex& head, const Pattern& pattern);

}  // namespace heed::lab
