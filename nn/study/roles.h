// Summary of the heads and MLPs of a model: patterns of attention, the components that change L,
// and how much of L the heads among them explain together.
#pragma once

#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "nn/study/measured_heads.h"

namespace heed::nn {

/// A known pattern of attention. A head has it if its score is at least kLeastScore and at least
/// 3 times that of equal weights on all visible keys. The role "uniform" only needs a score of 0.9.
struct Role {
  std::string_view name;   ///< "induction"
  std::string_view reads;  ///< what such a head reads, as text
  Quantity score;          ///< the score
};
/// Least score of a head with a role other than "uniform".
inline constexpr double kLeastScore = 0.4;
/// Returns the roles whose pattern the head has, sorted by score. The first one is the main role.
/// "uniform" is returned only if the head has no other role.
std::vector<const Role*> roles_of(const HeadReport& head, const HeadReport& uniform);

/// The conclusions about one head or MLP.
struct Finding {
  std::size_t row;                 ///< index in MeasuredHeads::effects
  std::optional<HeadIndex> head;   ///< empty for an MLP
  std::vector<const Role*> roles;  ///< roles_of() a head
  bool is_needed;                  ///< Judgement::Row::counts
  bool is_sufficient;              ///< Judgement::Row::suffices_counts

  /// Returns whether an effect of the component counts. If so, no text may state that the component
  /// has no effect.
  bool matters() const { return is_needed || is_sufficient; }

  /// Returns the name of the main role; "other" if the component has none.
  std::string_view role() const { return roles.empty() ? "other" : roles[0]->name; }
};

/// The effect of a set of heads with one role.
struct RoleEffect {
  const Role* role;              ///< main role of the heads
  std::vector<HeadIndex> heads;  ///< the heads that matter and have this main role
  Effect needed;                 ///< L without these heads, minus L
};

/// Summary of the heads and MLPs of a model, on N sequences.
struct HeadSummary {
  std::vector<Finding> findings;    ///< of all rows of MeasuredHeads::effects
  Judgement judgement;              ///< of these rows; MLPs are compared with the heads
  std::vector<RoleEffect> by_role;  ///< main roles of the heads that matter
  std::vector<HeadIndex> named;     ///< the heads that matter
  /// False if no head matters and the magnitude of MeasuredHeads::no_heads is below its floor times
  /// the square root of the number of heads. Small effects of many heads may add up to this.
  bool heads_change_L = false;
  ///@{
  /// The shares of L(all heads) - L(no head) that are left without the named heads, and with these
  /// heads alone (faithfulness, Wang et al. 2022, arXiv 2211.00593). NaN if no head is named, or if
  /// the difference is below its floor.
  double left_without = NAN;
  double left_alone = NAN;
  ///@}
};
/// Summarizes the heads and MLPs. `measured` is the result of measure_heads() for this run.
/// `predicts` is false if the model predicts no better than token frequencies: then no head has a
/// role, and no effect counts.
HeadSummary summarize_heads(const BaseRun& run, const Replacement& replaced,
                            const MeasuredHeads& measured, bool predicts = true);

/// Effect of a set of components, and the share of the effect of all components that remains
/// without the set.
struct KeptShare {
  Effect effect;  ///< L without the set, minus L
  /// (L without the set - L without all) / (L - L without all), where `all` are all heads, and all
  /// MLPs if `with_mlps` is true; NaN if the magnitude of the denominator, a mean over the
  /// sequences, is below smallest_effect()
  double left;
};
/// Measures L without `cut`, which may be empty.
KeptShare kept_share(const BaseRun& run, const std::vector<Component>& cut,
                     const Replacement& replaced, bool with_mlps = false);

}  // namespace heed::nn
