// Quantities of one attention head: scores of its attention pattern, and norms of its gradients.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/sites.h"

namespace heed::nn {

/// The quantities of one head. In the report of a batch, each quantity except the norms of weight
/// gradients (dW_Q to dW_O) is the mean over the sequences in which it is not NaN. The
/// previous-token, duplicate-token and induction scores are defined by Olsson et al. 2022
/// ("In-context learning and induction heads"). If a token has several earlier copies in the
/// sequence, the weights on these copies are added. If no token occurs twice, duplicate_token,
/// induction and detect_induction are NaN. L is the objective, S are the scores after the mask, and
/// A are the attention weights.
struct HeadReport : HeadIndex {
  double entropy;  ///< entropy of the weights of a query, mean over queries; nats
  /// entropy / log(number of visible keys), mean over queries with two or more visible keys; 0 to 1
  double relative_entropy;
  double largest_weight;    ///< largest weight of a query, mean over queries; 0 to 1
  double previous_token;    ///< mean weight on the token right before the query; 0 to 1
  double duplicate_token;   ///< mean weight on earlier copies of the query's token; 0 to 1
  double induction;         ///< mean weight on tokens after earlier copies; 0 to 1
  double detect_induction;  ///< weight on tokens after copies / total weight; 0 to 1
  double first_token;       ///< mean weight on the first token, over queries from 1 on; 0 to 1
  double current_token;  ///< mean weight on the query's own token, over queries from 1 on; 0 to 1
  /// sum over keys of A (1 - A), mean over queries with two or more visible keys: the trace of the
  /// softmax's Jacobian. 0 for one-hot weights, 1 - 1/n for equal weights on n keys.
  double softmax_gain;
  double saturation;  ///< |dL/dS| / |dL/dA| over visible keys; use softmax_gain instead
  /// dL/dg at g = 1, for a gate g that multiplies the head's output z. It equals z . dL/dz.
  double importance;
  double absolute_importance;  ///< absolute value of dL/dg
  double dq;                   ///< norm of dL/dq
  double dk;                   ///< norm of dL/dk; heads that share keys have the same value
  double dv;                   ///< norm of dL/dv; heads that share values have the same value
  double dz;                   ///< norm of dL/dz
  double dW_Q;                 ///< norm of d(mean L)/d(the head's block of W_Q)
  double dW_K;                 ///< norm of d(mean L)/d(the head's block of W_K)
  double dW_V;                 ///< norm of d(mean L)/d(the head's block of W_V)
  double dW_O;                 ///< norm of d(mean L)/d(the head's block of W_O)
};

/// Describes one quantity of HeadReport: its name in files, and how each output shows it.
struct HeadQuantity {
  std::string_view name;      ///< key in JSON, CSV and on the page: "previous_token"
  std::string_view unit;      ///< "nats"; empty for a number without a unit
  std::string_view what;      ///< description as text
  double HeadReport::*value;  ///< the member with the value

  /// Tables in the text output that show the quantity. The table of one sequence is not among them;
  /// `column` describes it.
  enum Text {
    kNowhere,         ///< none of these tables
    kSequences = 1,   ///< the table of `heed study --samples`
    kComparison = 2,  ///< the tables of `heed study A B`
  };
  int text = kNowhere;  ///< sum of the Text values that apply

  /// A column of the table that the text output shows for one sequence.
  struct Column {
    std::string_view heading;            ///< empty if the table has no column for it
    std::string_view format = "{:.3f}";  ///< fmt format of a cell
    int drop = 0;  ///< a table that is too wide drops the columns with the largest `drop` first
  } column = {};   ///< the column of this quantity

  /// A panel of over_time.png, which plots quantities over training steps.
  struct Panel {
    std::string_view title;  ///< empty if the picture has no panel for it
    /// Range and scale of the vertical axis.
    enum Axis {
      kSigned,         ///< linear, from the smallest to the largest value
      kFromZero,       ///< linear, includes 0
      kShare,          ///< linear, includes 0 and 1
      kLog,            ///< logarithmic
    } axis = kSigned;  ///< the vertical axis
  } panel = {};        ///< the panel of this quantity
};
/// Returns the descriptions of all quantities of HeadReport, in the order in which every output
/// shows them.
std::span<const HeadQuantity> head_quantities();

/// Computes the quantities of HeadReport that do not need gradients. All other quantities are 0.
/// `pattern` has the weights [T, T], row-major, query by key. `tokens` has the T tokens of the
/// sequence. `visible` has the number of keys that each query may attend to, [T]. If `visible` is
/// empty, query i may attend to the keys 0 to i. Throws ShapeError unless `pattern` has T * T
/// entries and `visible` is empty or has T entries.
HeadReport head_scores(std::span<const double> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible = {});

}  // namespace heed::nn
