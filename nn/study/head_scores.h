// Numbers of one head: what it looks at, and what its gradients say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/sites.h"

namespace heed::nn {

/// One head; of a batch the mean over its sequences, those left out where a number is NaN.
/// Scores are those of Olsson et al. 2022 ("In-context learning and induction heads"), attention to
/// several earlier copies of a token added up; NaN if no token occurs twice.
struct HeadReport : HeadIndex {
  double entropy, relative_entropy, largest_weight;
  double previous_token, duplicate_token, induction, detect_induction;
  double saturation, importance, absolute_importance;
  double dq, dk, dv, dz;
  double dW_Q, dW_K, dW_V, dW_O;
  /// L without the head (its output 0) minus L; nothing unless measure_cuts() measured it.
  std::optional<double> cut = {};

  /// Whether the gradient denies what the cut does (is_saturated); nothing if it is not measured.
  std::optional<bool> is_saturated() const;
};

/// Mean changes of L smaller than this have no sign.
inline constexpr double kNoEffect = 1e-6;

/// Whether an ablation is at least kNoEffect in magnitude, and -gradient, which estimates it, has
/// not its sign: the gradient here says nothing of what the head is worth.
bool is_saturated(double gradient, double ablation);

/// A number per head: its name in files, JSON and CSV, and how front ends show it.
struct HeadQuantity {
  std::string_view name, unit, what;
  double HeadReport::*value;

  /// Text beside the table of a sequence that shows it, a sum of these.
  enum Text { kNowhere, kSequences = 1, kComparison = 2 };
  int text = kNowhere;

  /// Heading and fmt format of its column in text; wide tables drop the columns of the largest
  /// `drop` first. Without a heading it is not there.
  struct Column {
    std::string_view heading, format = "{:.3f}";
    int drop = 0;
  } column = {};

  /// Its panel in the picture over training steps; none without a title.
  struct Panel {
    std::string_view title;
    enum Axis { kSigned, kFromZero, kShare, kLog } axis = kSigned;
  } panel = {};
};
/// All of HeadReport's but the cut, in the order in which every front end shows them.
std::span<const HeadQuantity> head_quantities();

/// The report's numbers that need no gradient, from weights [T, T] (row-major, query by key) and
/// the tokens they are of. `visible`: how many keys each query may read, [T]; empty: those up to
/// itself. ShapeError unless pattern has tokens.size()^2 entries and visible none or tokens.size().
HeadReport head_scores(std::span<const float> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible = {});

}  // namespace heed::nn
