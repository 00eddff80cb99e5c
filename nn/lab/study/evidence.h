// Evidence: a measured effect of one intervention, beside the predictions by gradients. A list of
// evidence is judged: which effects count, and how well predictions agree with effects.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "nn/lab/study/ablation.h"

namespace heed::lab {

/// A measured effect and its predictions (attribution.h).
struct Evidence {
  /// The place of the intervention: "L1H0", "L0MLP", "L1H0[5,3]", "L0H0:K:L1H0" or "L1 z at 3".
  std::string place;
  Effect effect;          ///< measured
  double path = NAN;      ///< path gradient
  double gradient = NAN;  ///< gradient at the model
  /// True for an edge into values whose effect is above the ablation of its head by two standard
  /// errors: the changed stream is unlike any stream of the model.
  bool off_distribution = false;
};

/// Agreement of predictions with the effects that count.
struct Agreement {
  double factor = NAN;         ///< median of prediction / effect
  std::size_t wrong_sign = 0;  ///< predictions with the other sign
  std::size_t close = 0;       ///< predictions with the right sign, within a factor of 3
};

/// The conclusions that a list of evidence allows.
struct Judgement {
  double smallest;                 ///< smallest effect that counts; HUGE_VAL: nothing counts
  double largest = 0;              ///< largest |effect|
  std::vector<bool> counts = {};   ///< by row: |effect| is at least its floor
  std::vector<std::size_t> order;  ///< rows by |effect|, largest first
  std::size_t counted = 0;         ///< number of rows that count
  Agreement path = {};             ///< of the path gradients
  Agreement gradient = {};         ///< of the gradients at the model

  /// Returns the floor of an effect: the largest of `smallest`, 5 % of `largest` and 2 standard
  /// errors. Values below the floor count as 0.
  double floor_of(const Effect& effect) const;
};
/// Smallest effect that counts, in the unit of L.
inline constexpr double kSmallestEffect = 0.01;
/// Judges a list of evidence.
Judgement judge(const std::vector<Evidence>& rows, double smallest = kSmallestEffect);

/// Returns a factor as text: "0.25" or "150".
std::string factor_text(double factor);

}  // namespace heed::lab
