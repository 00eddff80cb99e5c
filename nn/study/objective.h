// The objective L of a study: the scalar that the study differentiates. It is a margin, a loss, a
// log probability, log odds, a logit or a difference of logits, at chosen positions.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// Defines the scalar L of each sequence.
struct Objective {
  /// Kinds of objective.
  enum Kind {
    kLoss,           ///< cross-entropy, mean over the targets at the positions, nats
    kLogLikelihood,  ///< minus kLoss: mean log probability of the targets at the positions, nats
    /// Logit of token `a` minus the mean logit over the classes, mean over the positions. Without
    /// the second term, a head that adds the same number to all logits would have an effect,
    /// although it changes no probability.
    kLogit,
    /// log p - log(1 - p) for the probability p of the target, nats, mean over the positions that
    /// have a target and count in the accuracy (Batch::counted), or over `positions`. It is smooth
    /// at every checkpoint of a run and, unlike a margin, needs no rival token.
    kLogOdds,
    kLogProbability,  ///< log probability of token `a`, mean over the positions, nats
    kDifference,      ///< logit of `a` minus logit of `b`, mean over the positions
    /// Logit of `right` minus logit of `wrong`, mean over the positions that have these tokens.
    /// margin() returns such an objective.
    kMargin,
  } kind = kLoss;      ///< kind of this objective
  std::int64_t a = 0;  ///< a token in [0, classes); used by kLogit, kLogProbability, kDifference
  std::int64_t b = 0;  ///< a token in [0, classes); used only by kDifference
  /// Positions at which L is computed, counted from 0. A BOS token has a position. If the list is
  /// empty, kLoss and kLogLikelihood use all positions that have a target. kLogOdds uses those of
  /// them that count in the accuracy. kLogit, kLogProbability and kDifference use the last
  /// position. kMargin ignores the list, and always uses the positions of `right`.
  std::vector<std::int64_t> positions = {};
  Tensor right = {};  ///< [B, T] int64, a token or kIgnored; used only by kMargin
  Tensor wrong = {};  ///< [B, T] int64, a token where `right` is one; used only by kMargin

  /// Returns whether L is a linear function of the logits.
  bool is_linear() const { return kind == kLogit || kind == kDifference || kind == kMargin; }
  /// Returns whether L is computed from the targets of the sequences.
  bool is_of_targets() const { return kind == kLoss || kind == kLogLikelihood || kind == kLogOdds; }
};

/// Returns an objective of the kind kMargin for a model and a batch [B, T]: the logit of the
/// target minus the largest other logit, mean over the positions that count in the accuracy
/// (Batch::counted), or over `positions`. A position without a target has the token with the
/// largest logit instead of the target. If no position of a sequence counts, the margin is that of
/// its last position. Tokens that are not targets are chosen by the logits of this model. If an
/// intervention changes the logits, the objective keeps the tokens, so that it stays a linear
/// function of the logits. Throws ValueError if a position is out of range, or if the model
/// predicts fewer than two tokens. For the reasons to use logit differences instead of
/// probabilities, see Zhang and Nanda 2023, arXiv 2309.16042, and Heimersheim and Nanda 2024,
/// arXiv 2404.15255.
Objective margin(const Transformer& model, const Batch& batch,
                 const std::vector<std::int64_t>& positions = {});

/// A batch and an objective that are restricted to the positions on which L depends. L is the same.
struct ObjectiveAt {
  std::vector<std::int64_t> positions;  ///< positions whose logits L depends on, ascending
  Batch batch;                          ///< inputs, targets and counted [B, P] at these positions
  Objective objective;                  ///< L for logits [B, P, classes]
};
/// Returns the positions on which L depends in a batch [B, T]. Without such a position, returns the
/// last position.
ObjectiveAt at_positions(const Objective& objective, const Batch& batch);

/// Returns the share of the positions at which the largest logit is that of the right token, 0 to
/// 1: the positions of a margin, and otherwise those of the batch that count in the accuracy
/// (Batch::counted). NaN without such a position.
double accuracy(const Tensor& logits, const Batch& batch, const Objective& objective);

/// Returns the log probability of the targets that count in the accuracy, minus the logarithm of
/// their frequencies among these targets: mean over the targets of each sequence that has some. The
/// entropy of the frequencies is corrected for the size of the sample (Miller 1955). A model
/// without a positive gain predicts no better than token frequencies.
std::vector<double> gains_over_frequencies(const Transformer& model, const Batch& batch);

/// Computes L of each sequence from the logits [B, T, classes] of a batch. Returns [B], in the
/// dtype of the logits. For kMargin, B may be a multiple of the number n of sequences of the
/// objective (BaseRun::repeated()); sequence i then has the tokens of sequence i % n. Throws
/// ValueError if a position or a token is out of range, or if L is a loss and a sequence has no
/// target at the positions. Throws ShapeError if the tokens of a margin are those of a batch of
/// another shape.
Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& objective);

}  // namespace heed::nn
