// Circuits of attention heads, computed from the weights alone (Elhage et al. 2021, "A Mathematical
// Framework for Transformer Circuits").
//
// E is the table of token embeddings [vocab, d_model], U the weight of the output layer [classes,
// d_model], and P the table of positions. A vector is a row. The formulas use these terms:
// - x_i is row i of E, plus the mean row of P if positions are learned or sinusoidal
// - x~_i is the norm before the attention of a layer, applied to x_i alone
// - U~ is U minus its mean over the classes
// - G is the final norm without its division: it removes the mean over d_model (an RMSNorm does
//   not) and multiplies by the weight
// - s is the scale of the scores, which may be learned
// - W_O is the head's output projection, multiplied by the residual scale
//
// Left out: the final norm's division and bias, MLPs, other layers, and the bias of the
// output projection.
#pragma once

#include <optional>
#include <vector>

#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"
#include "nn/study/paths.h"

namespace heed::nn {

/// A matrix as a product of two thin factors: entry [i, j] is the dot product of rows[i] and
/// columns[j]. With it, a map of a large vocabulary need not be held in memory.
struct FactoredMap {
  Tensor rows;     ///< [m, r], float64
  Tensor columns;  ///< [n, r], float64

  /// Returns the map [m, n].
  Tensor full() const { return matmul(rows, mT(columns)); }
};

/// Two numbers that describe a map.
struct MapSummary {
  /// Sum of the eigenvalues, divided by the sum of their magnitudes; in [-1, 1]; NaN for a map of
  /// zeros. Its name in files is `matching` or `ov_copying`.
  double eigenvalues;
  double diagonal;  ///< share of rows whose largest entry is on the diagonal; 0 to 1
};
/// Summarizes the first `tokens` rows and columns of a map. If r < `tokens`, the eigenvalues are
/// computed from the r x r product of the factors, which has the same nonzero eigenvalues. If
/// several entries of a row are the largest, the first counts. Throws ShapeError unless `tokens` is
/// at least 1 and the map has at least `tokens` rows and columns.
MapSummary summarize(const FactoredMap& map, std::int64_t tokens);

/// An entry of a map.
struct MapEntry {
  std::int64_t row;     ///< index of the row, from 0
  std::int64_t column;  ///< index of the column, from 0
  double value;         ///< the entry
};
/// Returns the `count` entries with the largest magnitudes, largest first, or all entries if there
/// are fewer. Computes the map in blocks of rows.
std::vector<MapEntry> largest_entries(const FactoredMap& map, std::size_t count);

/// The scores of a head by distance between query and key.
struct DistanceCurve {
  std::vector<double> mean;       ///< mean over all pairs of tokens, by distance 0 to context - 1
  std::vector<double> deviation;  ///< standard deviation over the pairs (not of the mean)

  /// Returns the distance with the largest mean, or nullopt if the curve is empty.
  std::optional<std::int64_t> maximum() const;
};

/// How strongly head b could read the output of head a, by their weights alone.
struct CompositionScore {
  HeadIndex a;          ///< writes; in an earlier layer than b
  HeadIndex b;          ///< reads
  Receiver::Kind kind;  ///< the part of b that reads: kQuery, kKey or kValue
  double score;         ///< 0 to 1; NaN if one of the two factors is 0
  double random_mean;   ///< mean score of random weights of the same shapes
};

/// The maps of a model's heads, in float64. All queries, keys and values that the functions mention
/// are those of one head; heads that share keys and values have those of their group. With
/// `qk_norm`, a query and a key are normalized as in the model (the cosine form). A soft cap, the
/// score bias, masks and the sink are left out.
class Circuits {
 public:
  /// Copies the weights. Throws ValueError if a norm follows the residual sums (NormPlacement::
  /// kPost), because then the output of a head cannot be separated, and if the model has more
  /// classes than tokens.
  explicit Circuits(const Transformer& model);

  /// Returns the options of the model. Their dtype is float64.
  const Transformer::Options& options() const { return model_.options; }

  // The following functions throw ValueError for a head that the model does not have, and for a
  // distance outside [0, context).

  /// Returns the QK map [vocab, vocab]: s (x~_i W_Q + b_Q) R(D) . (x~_j W_K + b_K), where row i is
  /// the query's token and column j the key's token. R(D) is the rotation (RoPE) of a query that is
  /// D = `distance` tokens after the key. Other encodings of positions have no R, and the distance
  /// has no effect.
  FactoredMap qk(const HeadIndex& head, std::int64_t distance = 0) const;
  /// Returns the OV map [vocab, classes]: (x~_i W_V + b_V) W_O G U~^T, where row i is the token
  /// that is read and the columns are logits.
  FactoredMap ov(const HeadIndex& head) const;
  /// Returns the map [context, context] of positions: that of qk(), with row p of P plus the mean
  /// row of E instead of x_i. Throws ValueError unless positions are learned or sinusoidal.
  FactoredMap positions(const HeadIndex& head) const;
  /// Returns the mean and the standard deviation of qk() over all pairs of tokens, at the distances
  /// D = 0 to context - 1. Empty unless the model has RoPE.
  DistanceCurve curve(const HeadIndex& head) const;
  /// Returns the slope of the head if positions are kAlibi: its score at distance D is that of qk()
  /// minus the slope times D. Otherwise returns NaN.
  double slope(const HeadIndex& head) const;
  /// Returns the map in which head b of a later layer reads what head a writes about token i,
  /// w_i = x~_i W_V^a W_O^a. N is the norm before b's attention, without division and bias:
  /// - kKey: s (x~_i W_Q^b) R . (N(w_j) W_K^b), [vocab, vocab]
  /// - kQuery: s (N(w_i) W_Q^b) R . (x~_j W_K^b), [vocab, vocab]
  /// - kValue: (N(w_i) W_V^b) W_O^b G U~^T, [vocab, classes]
  ///
  /// The biases of projections are left out. Each x~ is normalized by the layer whose weight
  /// follows it. R is R(D) at a given distance. Without a distance, it is the mean of R(D) over D =
  /// 1 to context - 1, or R(0) if the context is 1. Throws ValueError unless a's layer is before
  /// b's.
  FactoredMap composed(Receiver::Kind kind, const HeadIndex& a, const HeadIndex& b,
                       std::optional<std::int64_t> distance = {}) const;

  /// Returns the composition scores of all pairs of heads in different layers (Elhage et al. 2021).
  /// With W_QK = W_Q W_K^T and W_OV = W_V W_O, the score is a Frobenius norm divided by the product
  /// of the norms of its two factors:
  /// - kQuery: |W_OV^a W_QK^b|
  /// - kKey: |W_OV^a (W_QK^b)^T|
  /// - kValue: |W_OV^a W_OV^b|
  ///
  /// random_mean is the mean score over `draws` random draws of all weights from N(0, 1). The
  /// random numbers depend on `seed`. In one model, random_mean depends on the kind alone.
  /// LayerNorms and RMSNorms have no effect on these scores. Throws ValueError unless `draws`
  /// is positive.
  std::vector<CompositionScore> composition_scores(std::int64_t draws = 100,
                                                   std::int64_t seed = 1) const;

 private:
  const MultiHeadAttention& at(const HeadIndex& h) const;
  Tensor read(Receiver::Kind kind, const HeadIndex& h, const Tensor& x, bool bias) const;
  Tensor output(const HeadIndex& h) const;
  Tensor logits(const HeadIndex& h) const;
  Tensor rotated(const Tensor& q, std::optional<std::int64_t> distance) const;

  Transformer model_;         // float64, weights by head
  std::vector<Tensor> read_;  // x~ by layer, [vocab, d_model]
};

}  // namespace heed::nn
