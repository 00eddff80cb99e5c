// Numbers of one attention head: scores of its attention pattern, and norms of its gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/sites.h"

namespace heed::nn {

/// The numbers of one head. For a batch each is the mean over the sequences in which it is not NaN.
/// The previous-token, duplicate-token and induction scores are those of Olsson et al. 2022
/// ("In-context learning and induction heads"). If a token has several earlier copies, their
/// weights are added. The scores of copies are NaN if no token occurs twice. L is the objective.
struct HeadReport : HeadIndex {
  double entropy;  ///< entropy of the weights of a query, mean over queries; nats
  /// Entropy / log(number of visible keys), mean over queries with two or more keys; 0 to 1.
  double relative_entropy;
  double largest_weight;       ///< largest weight of a query, mean over queries; 0 to 1
  double previous_token;       ///< mean weight on the token before the query; 0 to 1
  double duplicate_token;      ///< mean weight on earlier copies of the query's token; 0 to 1
  double induction;            ///< mean weight on the tokens that followed those copies; 0 to 1
  double detect_induction;     ///< share of all weight that is on those tokens; 0 to 1
  double saturation;           ///< |dL/dS| / |dL/dA| over visible cells; 0 for one-hot weights
  double importance;           ///< dL/dg of a gate g = 1 on the head's output z, which is z . dL/dz
  double absolute_importance;  ///< |dL/dg| of a sequence
  double dq;                   ///< norm of dL/dq
  double dk;    ///< norm of dL/dk; for shared keys that of all heads which share them
  double dv;    ///< norm of dL/dv; for shared values that of all heads which share them
  double dz;    ///< norm of dL/dz
  double dW_Q;  ///< norm of d(mean L)/d(the head's block of W_Q)
  double dW_K;  ///< norm of d(mean L)/d(the head's block of W_K)
  double dW_V;  ///< norm of d(mean L)/d(the head's block of W_V)
  double dW_O;  ///< norm of d(mean L)/d(the head's block of W_O)
  /// L with the head's output replaced by 0, minus L. It has no value until measure_cuts() sets it.
  std::optional<double> cut = {};

  /// Returns whether the gradient and the measured cut disagree in sign, as defined by the function
  /// is_saturated(importance, cut). Returns no value if the cut is not measured.
  std::optional<bool> is_saturated() const;
};

/// A mean change of L below this magnitude counts as no effect, so it has no sign.
inline constexpr double kNoEffect = 1e-6;

/// Returns whether an ablation is at least kNoEffect in magnitude, and -gradient, which is its
/// first-order estimate, does not have its sign. Then the gradient is not a measure of importance.
bool is_saturated(double gradient, double ablation);

/// Describes one number of HeadReport: its name in files, and how each output shows it.
struct HeadQuantity {
  std::string_view name;      ///< key in JSON, CSV and the page: "previous_token"
  std::string_view unit;      ///< "nats"; empty: the number has no unit
  std::string_view what;      ///< description for readers
  double HeadReport::*value;  ///< the number itself

  /// Tables in the text output, beside the table of one sequence, that show the number.
  enum Text {
    kNowhere,         ///< no further table
    kSequences = 1,   ///< the table of `heed study --samples`
    kComparison = 2,  ///< the tables of `heed study A B`
  };
  int text = kNowhere;  ///< a sum of Text values

  /// Column in the text output for one sequence.
  struct Column {
    std::string_view heading;            ///< empty: the table has no such column
    std::string_view format = "{:.3f}";  ///< fmt format of a cell
    int drop = 0;  ///< a table that is too wide drops the columns with the largest `drop` first
  } column = {};   ///< the column of this number

  /// Panel in over_time.png, the picture over training steps.
  struct Panel {
    std::string_view title;  ///< empty: the picture has no such panel
    /// Range and scale of the vertical axis.
    enum Axis {
      kSigned,         ///< linear, range of the data
      kFromZero,       ///< linear, includes 0
      kShare,          ///< linear, includes 0 and 1
      kLog,            ///< logarithmic
    } axis = kSigned;  ///< the vertical axis
  } panel = {};        ///< the panel of this number
};
/// Returns the descriptions of all numbers of HeadReport except the cut, in the order in which
/// every output shows them.
std::span<const HeadQuantity> head_quantities();

/// Computes the numbers of HeadReport that need no gradient; the others are 0. `pattern` has the
/// weights [T, T], row-major, query by key. `tokens` has the T tokens of the sequence. `visible`
/// has the number of keys that each query may read, [T]; if it is empty, each query reads the keys
/// up to itself. Throws ShapeError unless pattern has T * T entries and visible has T or none.
HeadReport head_scores(std::span<const float> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible = {});

}  // namespace heed::nn
