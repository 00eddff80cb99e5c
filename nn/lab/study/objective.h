// The objective L of a study: the scalar whose changes the study measures and predicts. It is a log
// probability, a loss, a logit or a difference of logits, at chosen positions.
#pragma once

#include <vector>

#include "nn/lab/tasks/task.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Defines the scalar L of each sequence.
struct Objective {
  /// Kinds of objective.
  enum Kind {
    kLoss,           ///< cross-entropy, mean over the targets at the positions, nats
    kLogLikelihood,  ///< minus kLoss: mean log probability of the targets, nats; the default L
    /// Logit of token `a` minus the mean logit over the classes, mean over the positions. Without
    /// the second term, a head that adds the same number to all logits would have an effect,
    /// although it changes no probability.
    kLogit,
    kLogProbability,  ///< log probability of token `a`, mean over the positions, nats
    kDifference,      ///< logit of `a` minus logit of `b`, mean over the positions
    /// Logit of `right` minus logit of `wrong`, mean over the positions that have these tokens, for
    /// pairs of prompts (Zhang and Nanda 2023, arXiv 2309.16042).
    kPair,
  } kind = kLoss;  ///< kind of this objective
  Index a = 0;     ///< a token in [0, classes); used by kLogit, kLogProbability, kDifference
  Index b = 0;     ///< a token in [0, classes); used only by kDifference
  /// Positions at which L is computed, counted from 0. A BOS token has a position. If the list is
  /// empty, kLoss and kLogLikelihood use the targets that count in the accuracy (Batch::counted):
  /// those that the earlier tokens determine. kLogit, kLogProbability and kDifference use the last
  /// position. kPair ignores the list, and always uses the positions of `right`.
  std::vector<Index> positions = {};
  Tensor right = {};  ///< [B, T] int64, a token or kIgnored; used only by kPair
  Tensor wrong = {};  ///< [B, T] int64, a token where `right` is one; used only by kPair

  /// Returns whether L is a linear function of the logits.
  bool is_linear() const { return kind == kLogit || kind == kDifference || kind == kPair; }
  /// Returns whether L is computed from the targets of the sequences.
  bool is_of_targets() const { return kind == kLoss || kind == kLogLikelihood; }
};

/// Returns the default L of a prompt: the log probability, at its last position, of the token that
/// the prompt determines or, if it determines none, of the token that the model predicts.
Objective prompt_objective(const Transformer& model, const Batch& prompt);

/// Returns the number of positions of L in each sequence of the batch, [B]. L of a sample is the
/// mean over the positions of all its sequences.
std::vector<double> counts_of(const Objective& objective, const Batch& batch);

/// A batch and an objective that are restricted to the positions on which L depends. L is the same.
struct ObjectiveAt {
  std::vector<Index> positions;  ///< positions whose logits L depends on, ascending
  Batch batch;                   ///< inputs, targets and counted [B, P] at these positions
  Objective objective;           ///< L for logits [B, P, classes]
};
/// Returns the positions on which L depends in a batch [B, T]. Without such a position, returns the
/// last position.
ObjectiveAt at_positions(const Objective& objective, const Batch& batch);

/// Returns the share of the positions at which the largest logit is that of the right token, 0 to
/// 1: the positions of kPair, and otherwise those of the batch that count in the accuracy
/// (Batch::counted). NaN without such a position.
double accuracy(const Tensor& logits, const Batch& batch, const Objective& objective);

/// Returns the log probability of the targets that count in the accuracy, minus the logarithm of
/// their frequencies among these targets: mean over the targets of each sequence that has some. The
/// entropy of the frequencies is corrected for the size of the sample (Miller 1955). A model
/// without a positive gain predicts no better than token frequencies.
std::vector<double> gains_over_frequencies(const Transformer& model, const Batch& batch);

/// Computes L of each sequence from the logits [B, T, classes] of a batch, as a mean over its
/// positions (0 without one). Returns [B], in the dtype of the logits. For kPair, B may be a
/// multiple of the number n of sequences of the objective (BaseRun::repeated()); sequence i then
/// has the tokens of sequence i % n. Throws ValueError if a position or a token is out of range, or
/// if L is of targets and no sequence has one at the positions. Throws ShapeError if the tokens of
/// a pair are those of a batch of another shape.
Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& objective);

}  // namespace heed::lab
