// Comparison of measured effects with the effects that a gradient predicts: marks of rows where a
// gradient misleads, and how well gradients agree with effects over all rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/io/setting.h"
#include "nn/study/ablation.h"

namespace heed::nn {

/// Result of comparing an effect with its prediction. `missed` and `phantom` are the false
/// negatives and false positives of AtP* (Kramar et al. 2024, arXiv 2403.00745).
enum class Mark {
  kNone,       ///< the prediction has the right sign and is right within a factor of 3
  kFactor,     ///< the prediction has the right sign, but not the right size
  kSmall,      ///< effect and prediction are below the floor
  kRedundant,  ///< the effect alone is below the floor, but other heads stand in for this head
  kMissed,     ///< there is an effect, but the prediction is below the floor
  kPhantom,    ///< there is a prediction, but the effect is below the floor
  kReversed,   ///< effect and prediction are at least the floor and have different signs
};
/// Names of the marks in tables.
template <>
struct EnumNames<Mark> {
  /// The marks and their names. Tables show the factor instead of the name of kFactor.
  static constexpr std::pair<Mark, const char*> kTable[] = {{Mark::kNone, ""},
                                                            {Mark::kFactor, "factor"},
                                                            {Mark::kSmall, "-"},
                                                            {Mark::kRedundant, "redundant"},
                                                            {Mark::kMissed, "missed"},
                                                            {Mark::kPhantom, "phantom"},
                                                            {Mark::kReversed, "reversed"}};
};

/// A row of a table of effects, in the unit of L: the measured and the predicted change of L under
/// one replacement, on the same sequences.
struct EffectRow {
  Effect effect;                        ///< measured change
  double predicted;                     ///< change that a gradient predicts
  std::optional<Effect> suffices = {};  ///< for a head: MeasuredHead::suffices
};

/// Smallest effects that count for an objective, in its unit: 0.05 for a margin or a logit, and
/// 0.01 nats for a loss or a log probability.
double smallest_effect(const Objective& objective);
/// Returns the largest |effect| or |suffices| of the rows, and 0 for no rows.
double largest_effect(const std::vector<EffectRow>& rows);
/// Returns the floor of a row: the largest of `smallest`, 5 % of `largest` (the largest effect of
/// the table) and 2 standard errors of the row's effect. Values below the floor count as 0.
double floor_of(const EffectRow& row, double largest, double smallest);
/// Returns whether |suffices| is at least the floor and two of its own standard errors.
bool suffices_counts(const EffectRow& row, double floor);
/// Returns the mark of a row with this floor.
Mark mark_of(const EffectRow& row, double floor);
/// Returns a factor as text: "0.25" or "150".
std::string factor_text(double factor);
/// Returns the mark as text. For kFactor this is prediction / effect, such as "x0.25".
std::string mark_text(const EffectRow& row, double floor);

/// Agreement of predictions with effects, over the rows of a table.
struct Agreement {
  double rank_correlation;  ///< Spearman's correlation of predictions and effects
  /// Median of prediction / effect over the rows whose |effect| is at least its floor; NaN without
  /// such a row.
  double factor;
  std::int64_t rows;  ///< number of rows whose |effect| is at least its floor
};
/// Compares `predicted` with the effects of the rows. Both have the same length.
Agreement agreement(const std::vector<EffectRow>& rows, const std::vector<double>& predicted,
                    double smallest);
/// Returns Spearman's correlation: the correlation of the ranks, where equal values share the mean
/// of their ranks. NaN for fewer than three values, or if one list is constant.
double rank_correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace heed::nn
