// Alarms of a training run: heads that cannot learn, and heads whose scores are too large.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/run/step_log.h"
#include "nn/study/head_scores.h"

namespace heed::nn {

/// Computes kSaturatedQueries and kLargestScore of all heads on a batch, and kDWQ to kDWO of the
/// mean loss, ordered by layer, then by head. Queries of padding are not counted. kSaturatedQueries
/// does not count queries that may read only one key. Runs the model forward and backward, without
/// dropout. Changes no .grad. Throws the errors of Transformer::forward().
std::vector<HeadReport> head_health(const Transformer& model, const Batch& batch);

/// Returns the sequences on which HeadAlarms measures: at most 8, and at most a quarter of a
/// training batch, but at least one. If attention patterns are large, the sequences are shortened
/// to their first tokens. If these have no target, returns one whole sequence.
Batch measured_batch(const Trainer& trainer);

/// Returns the alarms of a head at the last evaluation in `history`:
///  - "stuck": at least 95 % of the queries are saturated, |dW_Q| and |dW_K| are below
///    1e-3 |dW_V|, and the loss is high or has stalled.
///  - "exploding": a |score| is above 1000, or above 50 while the loss is high and at least 25 % of
///    the queries are saturated. A trained model may have sharp heads, but a model that has not
///    learned yet has small scores.
/// The loss is high if loss - optimal > 0.2 * (first loss - optimal). The first loss is the loss of
/// the evaluation at step 0 or, if there is none, the loss of the first batch. The loss has stalled
/// if the optimal loss is unknown and the loss fell by less than 1 % in the last three evaluations.
std::vector<std::string> alarms_of(const HeadReport& head, const std::vector<MetricsRow>& history);

/// Measures the heads of a run at each evaluation, without changing the run, for heads.csv.
class HeadAlarms {
 public:
  /// Creates heads.csv of the run in `folder`, or atomically removes its lines of evaluations that
  /// the history of `trainer` does not contain. `trainer` must outlive the object. Throws IoError.
  HeadAlarms(const RunFolder& folder, Trainer& trainer);
  /// Measures the heads after an evaluation. Writes all numbers at once, unless the file has lines
  /// of this or a later step. Returns a sentence for each alarm of a head that is new since
  /// construction. Uses measured_batch(). Throws the errors of head_health(), and IoError.
  std::vector<std::string> after_evaluation();

 private:
  const Trainer& trainer_;
  StepLog file_;
  std::set<std::string> reported_;  // such as "L0H1 is stuck"
};

}  // namespace heed::nn
