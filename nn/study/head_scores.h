// Quantities of one attention head: scores of its attention pattern, norms of its gradients, and
// its effects on the objective L.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/sites.h"

namespace heed::nn {

/// The numbers of one head, which head_quantities() describes. L is the objective, S are the scores
/// after the mask, and A are the attention weights. The previous-token, duplicate-token and
/// induction scores are defined by Olsson et al. 2022 ("In-context learning and induction heads").
/// If a token has several earlier copies in the sequence, the weights on these copies are added. If
/// no token occurs twice, kDuplicateToken, kInduction and kDetectInduction are NaN.
enum Quantity : std::size_t {
  kEntropy,          ///< entropy of the weights of a query, mean over queries; nats
  kRelativeEntropy,  ///< entropy / log(visible keys), over queries with two or more; 0 to 1
  kLargestWeight,    ///< largest weight of a query, mean over queries; 0 to 1
  kPreviousToken,    ///< mean weight on the token right before the query; 0 to 1
  kDuplicateToken,   ///< mean weight on earlier copies of the query's token; 0 to 1
  kInduction,        ///< mean weight on tokens after earlier copies; 0 to 1
  kDetectInduction,  ///< weight on tokens after copies / total weight; 0 to 1
  kFirstToken,       ///< mean weight on the first token, over queries from 1 on; 0 to 1
  kCurrentToken,     ///< mean weight on the query's own token, over queries from 1 on; 0 to 1
  /// sum over keys of A (1 - A), mean over queries with two or more visible keys: the trace of the
  /// softmax's Jacobian. 0 for one-hot weights, 1 - 1/n for equal weights on n keys.
  kSoftmaxGain,
  /// dL/dg at g = 1, for a gate g that multiplies the head's output z. It equals z . dL/dz.
  kImportance,
  kAbsoluteImportance,  ///< absolute value of dL/dg
  kDq,                  ///< norm of dL/dq
  kDk,                  ///< norm of dL/dk; heads that share keys have the same value
  kDv,                  ///< norm of dL/dv; heads that share values have the same value
  kDz,                  ///< norm of dL/dz
  kDWQ,                 ///< norm of d(mean L)/d(the head's block of W_Q)
  kDWK,                 ///< norm of d(mean L)/d(the head's block of W_K)
  kDWV,                 ///< norm of d(mean L)/d(the head's block of W_V)
  kDWO,                 ///< norm of d(mean L)/d(the head's block of W_O)
  kNeeded,              ///< L without this head, minus L
  /// L if this head is the only one in its layer, minus L without all heads of the layer. It shows
  /// a head that other heads can replace, for which kNeeded is small.
  kSuffices,
  /// Prediction of kNeeded: (z' - z) . dL/dz at the unchanged model, where z' replaces z.
  kPredicted,
  /// kPredicted, with the softmax of later heads exact: plus the sum over later heads of
  /// (softmax(S + dS) - A - J dS) . dL/dA, where dS is the first-order change of the scores S and J
  /// is the Jacobian of the softmax. In the last layer it equals kPredicted. Compare the QK fix of
  /// AtP* (Kramar et al. 2024, arXiv 2403.00745).
  kSoftmaxExact,
  /// The mean of dL/dz at z + (k - 1/2)/5 (z' - z), k = 1 to 5, times z' - z. It integrates along
  /// the activation of the head (EAP-IG, Hanna et al. 2024, arXiv 2403.17806).
  kIntegrated,
  kQuantityCount,  ///< number of the quantities above
};

/// The numbers of one head. A number that was not computed, or is not defined, is NaN.
struct HeadReport : HeadIndex {
  std::array<double, kQuantityCount> values = unknown();  ///< by Quantity

  /// Returns one number.
  double& operator[](Quantity q) { return values[q]; }
  /// Returns one number.
  double operator[](Quantity q) const { return values[q]; }

 private:
  static constexpr std::array<double, kQuantityCount> unknown() {
    std::array<double, kQuantityCount> all{};
    all.fill(std::numeric_limits<double>::quiet_NaN());
    return all;
  }
};
/// Returns the mean of each quantity over the reports in which it is not NaN. `weights` contains
/// the weight of each report; if it is empty, all weights are 1. The head is that of the first
/// report.
HeadReport mean_report(std::span<const HeadReport> reports, std::span<const double> weights = {});

/// Describes one quantity: its name in files, and the form in which each output shows the quantity.
struct HeadQuantity {
  Quantity quantity;      ///< index in HeadReport
  std::string_view name;  ///< key in JSON and on the page: "previous_token"
  std::string_view unit;  ///< "nats"; empty for a number without a unit
  std::string_view what;  ///< description as text

  /// A column of the tables of heads.
  struct Column {
    std::string_view heading;            ///< heading; empty: the name, and text has no such column
    std::string_view format = "{:.3f}";  ///< fmt format of a cell
    bool in_text = true;                 ///< false: only the page has the column
  } column = {};                         ///< the column of this quantity

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

  /// Functions that compute the quantity.
  enum Source {
    kStudy,           ///< study()
    kEffects,         ///< measure_heads(), and over_time() if it measures effects
    kMeasure,         ///< measure_heads()
  } source = kStudy;  ///< the source of this quantity
  /// Returns whether over_time() computes the quantity.
  bool is_over_time() const { return source == kStudy || source == kEffects; }
};
/// Returns the descriptions of all quantities, in the order of Quantity, in which every output
/// shows them.
std::span<const HeadQuantity> head_quantities();

/// Computes the quantities that need only the weights of a head. All other quantities are NaN.
/// `pattern` contains the weights [T, T], row-major, query by key. `tokens` contains the T tokens
/// of the sequence. `visible` contains the number of keys that each query may attend to, [T]. If
/// `visible` is empty, query i may attend to the keys 0 to i. Throws ShapeError unless `pattern`
/// has T * T entries and `visible` is empty or has T entries.
HeadReport head_scores(std::span<const double> pattern, std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> visible = {});

}  // namespace heed::nn
