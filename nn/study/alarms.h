// Alarms of a training run: heads that cannot learn, and heads whose scores grow too large. They
// are measured at evaluations only, on a few sequences. The run does not change by a bit.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nn/run/heads_file.h"
#include "nn/train/trainer.h"

namespace heed::nn {

/// Numbers of one head on a batch. A query counts if it may attend to two or more keys and is not
/// padding.
struct HeadHealth : HeadIndex {
  /// Fraction of the queries whose softmax_gain (HeadReport) is below 0.02; NaN without a query.
  double saturated_queries;
  double dW_Q;  ///< norm of d(mean loss)/d(the head's block of W_Q)
  double dW_K;  ///< norm of d(mean loss)/d(the head's block of W_K)
  double dW_V;  ///< norm of d(mean loss)/d(the head's block of W_V)
  /// Largest |score| of a query and a key that it may attend to, before soft cap and bias.
  double largest_score;
};
/// Computes the numbers of all heads, ordered by layer, then by head. Runs the model forward and
/// backward, without dropout. Changes no .grad. Throws the errors of Transformer::forward().
std::vector<HeadHealth> head_health(const Transformer& model, const Batch& batch);

/// State of the loss at the last evaluation of a run.
enum class LossState {
  kLow,      ///< none of the following
  kHigh,     ///< more than 20 % of (loss at step 0 - optimal loss) above the optimal loss
  kStalled,  ///< optimal loss unknown; the loss fell by less than 1 % in the last three evaluations
};
/// Returns the state at the last evaluation in `history`. If there was no evaluation at step 0, the
/// loss at step 0 is that of the first batch.
LossState loss_state(const std::vector<MetricsRow>& history);

/// Returns whether a head is stuck: the loss is high or stalled, at least 95 % of the queries are
/// saturated, and |dW_Q| and |dW_K| are below 1e-3 |dW_V|.
bool is_stuck(const HeadHealth& head, LossState loss);
/// Returns whether the scores of a head explode: a |score| is above 1000, or above 100 if matrix
/// products are rounded to bfloat16, or it is above 50, at least 25 % of the queries are saturated,
/// and the loss is high. Heads of trained models may be sharp, but a model that has not learned yet
/// has small scores.
bool is_exploding(const HeadHealth& head, LossState loss, Precision matmul);

/// Measures the heads of a run at each evaluation, and writes the numbers to heads.csv.
class HeadAlarms {
 public:
  /// Opens heads.csv of the run in `folder`, without the lines of evaluations that the history of
  /// `trainer` does not contain. `trainer` must outlive the object. Throws the errors of HeadsLog.
  HeadAlarms(const RunFolder& folder, const Trainer& trainer);
  /// Measures the heads after an evaluation, and writes the numbers. Returns a sentence for each
  /// head that is stuck or exploding for the first time since construction, such as "step 200: L0H1
  /// is exploding: ...; a smaller `lr`, ...". Uses the first sequences of the evaluation set: at
  /// most 8 and at most a quarter of a shard of a training batch, or fewer of them or only their
  /// first tokens if attention patterns are large. Throws the errors of head_health() and
  /// HeadsLog::append().
  std::vector<std::string> after_evaluation();

 private:
  Batch batch() const;
  std::string advice() const;

  const Trainer& trainer_;
  HeadsLog log_;
  std::set<std::string> reported_;  // alarms of earlier evaluations, such as "L0H1 is stuck"
};

}  // namespace heed::nn
