// Predictions from intermediate values of the residual stream: the logit lens, and direct logit
// attribution, which splits a logit into contributions of the embedding, heads and MLPs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/ablation.h"
#include "nn/study/study.h"

namespace heed::nn {

/// The prediction from the stream after one block at one position, through the final norm, if there
/// is one, and the output head.
struct LensCell {
  std::int64_t token;      ///< the token of interest; kIgnored if the position has no target
  double probability;      ///< its probability; NaN without a token
  std::int64_t rank;       ///< 1 + the number of likelier tokens; 0 without a token
  std::int64_t top;        ///< the likeliest token
  double top_probability;  ///< the probability of `top`
};
/// The predictions after each block at each position.
struct LogitLens {
  std::int64_t layers;          ///< number of blocks
  std::int64_t length;          ///< T
  std::vector<LensCell> cells;  ///< [layers, T]; the last layer has the model's own prediction
  /// Returns the prediction after block `layer` at `position`, both from 0.
  const LensCell& at(std::int64_t layer, std::int64_t position) const {
    return cells[std::size_t(layer * length + position)];
  }
};
/// Logit lens (nostalgebraist 2020) from the study of one sequence [1, T]. The token of interest is
/// the objective's token a, or for a loss the target of the position. Throws ShapeError for another
/// batch size, and ValueError for a token that the model does not predict.
LogitLens logit_lens(const Transformer& model, const Study& study, const Batch& sequence,
                     const Objective& objective);

/// The contribution of one part of the model to L.
struct Contribution {
  /// "embedding", "position", "L0H1", "L0 bias" (of the output projection), "L0 MLP" or
  /// "norm's bias".
  std::string name;
  Effect effect;  ///< its term in L, over the sequences
};
/// Direct logit attribution (Elhage et al. 2021; Wang et al. 2022) of a logit or a difference of
/// logits, from its study on a batch. The scale of the final norm is held constant, so that L is
/// the sum of the contributions, up to rounding. Throws ValueError for a loss, because it is not
/// linear in the logits. Throws ValueError for NormPlacement::kPost, because the output of a
/// sublayer does not reach the logits unchanged.
std::vector<Contribution> logit_attribution(const Transformer& model, const Study& study,
                                            const Objective& objective);

}  // namespace heed::nn
