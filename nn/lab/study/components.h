// The heads and MLPs of a model: the effect of each on L, measured and predicted, and the
// interactions of pairs of heads.
#pragma once

#include <optional>
#include <vector>

#include "nn/lab/study/attribution.h"
#include "nn/lab/study/evidence.h"

namespace heed::lab {

/// The effect of two heads together, minus the effects of each.
struct Interaction {
  ///@{
  /// Row of ComponentStudy.
  std::size_t a, b;
  ///@}
  Effect effect;  ///< the interaction
};

/// A head whose effect does not count, because another head does the same.
struct Redundancy {
  std::size_t row;     ///< row of ComponentStudy
  std::size_t with;    ///< the row with the largest interaction
  double interaction;  ///< mean interaction of both
};

/// All heads and MLPs on N sequences.
struct ComponentStudy {
  Effect value;                       ///< L and the accuracy of the unchanged model
  Effect no_heads;                    ///< effect of all heads together
  std::vector<Component> components;  ///< all_components()
  std::vector<Evidence> rows;         ///< of `components`
  ///@{
  /// Effects by Ablation::kZero and kMean, of `components`, or empty.
  std::vector<Effect> zero, mean;
  ///@}
  Judgement judgement;             ///< of `rows`
  std::vector<Interaction> pairs;  ///< of heads; empty for more than kMostPairedHeads heads
  Attribution attribution;         ///< without edges and cells, unless they were asked for
  std::size_t path_donors = 0;     ///< donors of the path gradient

  /// Returns the heads whose effects do not count, but whose interaction with another head does.
  std::vector<Redundancy> redundant() const;
  /// Returns whether the effect of a row depends on the replacement: by zero and by the mean, both
  /// effects count with different signs, or one is at least twice and the other at most half of its
  /// floor.
  bool depends(std::size_t row) const;
};
inline constexpr std::size_t kMostPairedHeads = 8;  ///< of a model whose pairs are measured

/// Measures all components. `smallest` is that of Judgement. Gradients use all donors if their work
/// is at most kStudyWork, and otherwise the first donor. Unless `checks` is set, leaves out `zero`,
/// `mean` and `pairs`. Throws NumericError if a number is not finite.
ComponentStudy study_components(const BaseRun& run, const Donors& donors, double smallest,
                                bool checks = true, const ProgressCallback& progress = {});

/// Floating-point operations that a study spends on edges and cells together: about 3 seconds. It
/// counts work and not time, so that a study repeats.
inline constexpr double kStudyWork = 3e11;

}  // namespace heed::lab
