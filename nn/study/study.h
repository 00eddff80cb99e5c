// What the heads of a trained model do on sequences, and what a loss or a logit would have them do
// differently: attention, its gradients, and a few numbers per head and layer.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/module.h"
#include "nn/layers/transformer.h"
#include "nn/study/head_scores.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// How much gradient arrives before and after a block: norms of dL/d(residual stream), of a batch
/// the mean over its sequences.
struct LayerFlow {
  std::int64_t layer;
  double resid_pre_grad, resid_post_grad;
};

/// An array per layer (or one) of a Study under the name that every front end uses.
struct ArrayQuantity {
  std::string_view site;   ///< "attn.hook_pattern", behind "blocks.L."; "hook_embed" has no layer
  std::string_view title;  ///< "A"
  std::string_view shape;  ///< "[B, H, Tq, Tk]"
  std::string_view what;
};
/// All of Study::arrays; each also as dL/d(it) under its name + "_grad", and attn.hook_pattern
/// times that, where the mask hides nothing, under its name + "_x_grad".
std::span<const ArrayQuantity> array_quantities();

struct Study {
  double value = 0;  ///< of the objective, mean over the sequences
  std::vector<HeadReport> heads;
  std::vector<LayerFlow> flow;
  /// Named as array_quantities() says, "blocks.1.attn.hook_pattern_grad". A gradient is that of its
  /// own sequence's L.
  std::vector<NamedTensor> arrays;

  /// ValueError naming the nearest.
  const Tensor& array(std::string_view name) const;
  const HeadReport& head(std::int64_t layer, std::int64_t head) const;
};

/// Runs the model forward and backward on sequences [B, T], without dropout; its .grad are left as
/// they are. ShapeError for inputs of another rank; ValueError as objective_values().
Study study(const Transformer& model, const Batch& batch, const Objective& objective);

/// Of maps by query and key [B, H, T, T]: the mean over sequences, and over queries from d on, of
/// the entry d places before the query, [H, T], float64: what a head does whatever the position.
Tensor by_distance(const Tensor& maps);

}  // namespace heed::nn
