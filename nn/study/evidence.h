// Evidence: a measured change of the objective L by one intervention, beside what was predicted for
// it. A list of evidence is judged: which changes count, which predictions mislead, and how well
// predictions agree with measurements.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/setting.h"
#include "nn/study/ablation.h"

namespace heed::nn {

/// A change of L that was predicted for an intervention.
struct Prediction {
  std::string_view name;  ///< "gradient", "softmax exact", "integrated (activation)" or "sum"
  Effect effect;          ///< the predicted change
};
/// A measured change of L by one intervention, and the predictions of this change. All rows of a
/// list contain the same predictions in the same order, but a row may lack the last ones.
struct Evidence {
  /// The place of the intervention: "L1H0", "L0MLP", "L1H0[5,3]", "L0H0:K:L1H0", "L0H0, L0H1" or
  /// "L1 resid_pre at 3".
  std::string place;
  Effect effect;                             ///< measured change
  std::vector<Prediction> predictions = {};  ///< may be empty; the first one decides the mark
  std::optional<Effect> suffices = {};       ///< for a head: kSuffices

  /// Returns the mean of the first prediction, or NaN without one.
  double predicted() const { return predictions.empty() ? NAN : predictions[0].effect.mean; }
};

/// Result of comparing an effect with its prediction. `missed` and `phantom` are the false
/// negatives and false positives of AtP* (Kramar et al. 2024, arXiv 2403.00745).
enum class Mark {
  kNone,       ///< the prediction has the right sign and is right within a factor of 3
  kFactor,     ///< the prediction has the right sign, but not the right size
  kSmall,      ///< effect and prediction are below the floor
  kRedundant,  ///< the effect is below the floor, but `suffices` counts: other heads do the same
  kMissed,     ///< there is an effect, but the prediction is below the floor
  kPhantom,    ///< there is a prediction, but the effect is below the floor
  kReversed,   ///< effect and prediction are at least the floor and have different signs
};
/// Names of the marks in tables.
template <>
inline constexpr auto kEnumNames<Mark> = std::to_array({"", "factor", "-", "redundant", "missed",
                                                        "phantom", "reversed"});

/// Agreement of the predictions of one name with the effects.
struct Agreement {
  std::string_view name;    ///< Prediction::name
  double rank_correlation;  ///< Spearman's correlation of predictions and effects
  /// Median of prediction / effect over the rows whose effect counts; NaN without such a row.
  double factor;
  std::int64_t rows;  ///< number of rows whose effect counts
};

/// The conclusions that a list of evidence allows.
struct Judgement {
  /// The judgement of one row.
  struct Row {
    double floor;          ///< floor_of() the effect
    bool counts;           ///< |effect| is at least the floor
    bool suffices_counts;  ///< |suffices| is at least the floor and 2 of its own standard errors
    Mark mark;             ///< kNone without a prediction, and if nothing counts
    double factor;         ///< first prediction / effect
  };
  double smallest;                   ///< smallest change that counts; HUGE_VAL: nothing counts
  double largest;                    ///< largest |effect| or |suffices|; 0 for no rows
  std::vector<Row> rows;             ///< in the order of the evidence
  std::vector<std::size_t> order;    ///< rows by the larger of |effect| and |suffices|, descending
  std::vector<Agreement> agreement;  ///< by prediction, over the rows that have it

  /// Returns the floor of an effect: the largest of `smallest`, 5 % of `largest` and 2 standard
  /// errors. Values below the floor count as 0.
  double floor_of(const Effect& effect) const;
};
/// Judges a list of evidence. Only the first `compared` rows contribute to Judgement::largest and
/// Judgement::agreement: the effects of MLPs, which come last, are compared with those of heads.
Judgement judge(const std::vector<Evidence>& rows, double smallest,
                std::size_t compared = std::size_t(-1));

/// Returns true if two rows of a list have no order: their sizes differ by at most two standard
/// errors of the difference, paired by sequence. The size of a row is the larger of |effect| and
/// |suffices|. Returns false if one of the rows has no standard error.
bool about_equal(const Evidence& a, const Evidence& b);

/// Returns the smallest effect that counts for an objective, in its unit: 0.05 for a margin, a
/// logit or a difference of logits, and 0.01 nats for the other kinds.
double smallest_effect(const Objective& objective);
/// Returns a factor as text: "0.25" or "150".
std::string factor_text(double factor);
/// Returns the mark of a row as text. For kFactor this is prediction / effect, such as "x0.25".
std::string mark_text(const Judgement::Row& row);
/// Returns Spearman's correlation: the correlation of the ranks, where equal values share the mean
/// of their ranks. NaN for fewer than three values, or if one list is constant.
double rank_correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace heed::nn
