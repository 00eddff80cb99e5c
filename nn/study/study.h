// What the heads of a trained model do on one sequence, and what a loss or a logit would have them
// do differently: attention, its gradients, and a few numbers per head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers/module.h"
#include "nn/layers/transformer.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// One head on one sequence. Scores are those of Olsson et al. 2022 ("In-context learning and
/// induction heads"), attention to several earlier copies of a token added up; NaN if no token
/// occurs twice.
struct HeadReport {
  std::int64_t layer, head;
  double entropy;          ///< of the weights, nats, mean over queries
  double previous_token;   ///< mean weight on the token before, over queries from 1 on
  double duplicate_token;  ///< mean weight on earlier copies of the query's own token
  double induction;        ///< mean weight on what followed earlier copies of the query's own token
  double dq, dk, dv;       ///< norms of dL/dq, dL/dk, dL/dv; of shared k and v all that share them
};

/// The report's numbers that need no gradient, from weights [T, T] (row-major, query by key) and
/// the tokens they are of. ShapeError unless pattern has tokens.size()^2 entries.
HeadReport head_scores(std::span<const float> pattern, std::span<const std::int64_t> tokens);

struct Study {
  double value = 0;  ///< of the objective
  std::vector<HeadReport> heads;
  /// By TransformerLens' names: blocks.L.attn.hook_q|k|v|z [1, T, H, d_head],
  /// hook_attn_scores|hook_pattern [1, H, T, T], and each one's gradient under the name + "_grad".
  std::vector<NamedTensor> arrays;
};

/// Runs the model forward and backward on `one` sequence [1, T], without dropout; its .grad are
/// left as they are. ShapeError for another batch size; ValueError for a token or position out of
/// range, or a loss without targets.
Study study(const Transformer& model, const Batch& one, const Objective& objective);

}  // namespace heed::nn
