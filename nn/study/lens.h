// The logit lens, which computes predictions from intermediate values of the residual stream,
// direct logit attribution, which splits a logit into contributions of the embedding, heads and
// MLPs, and the copying score: whether a head raises the logit of the token that it reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/evidence.h"
#include "nn/study/study.h"

namespace heed::nn {

/// The prediction from the residual stream after one block at one position. The stream passes
/// through the final norm, if the model has one, and the output layer.
struct LensCell {
  std::int64_t token;      ///< the token of interest, see logit_lens(); kIgnored if there is none
  double probability;      ///< probability of `token`; NaN if `token` is kIgnored
  std::int64_t rank;       ///< rank of `token`, 1 for the largest logit; 0 if it is kIgnored
  std::int64_t top;        ///< the most probable token
  double top_probability;  ///< probability of `top`
};
/// The predictions after every block at every position.
struct LogitLens {
  std::int64_t layers;          ///< number of blocks
  std::int64_t length;          ///< number of positions T
  std::vector<LensCell> cells;  ///< [layers, T]; the last layer has the predictions of the model
  /// Returns the prediction after block `layer` at `position`. Blocks and positions are counted
  /// from 0.
  const LensCell& at(std::int64_t layer, std::int64_t position) const {
    return cells[std::size_t(layer * length + position)];
  }
};
/// Computes the logit lens (nostalgebraist 2020) from the study of one sequence [1, T]. The token
/// of interest is the target of each position if objective.is_of_targets() is true, the token in
/// objective.right for a margin, and otherwise objective.a. Throws ShapeError unless the batch size
/// is 1. Throws ValueError if the token of interest is not one of the model's output classes.
LogitLens logit_lens(const Transformer& model, const Study& study, const Batch& sequence,
                     const Objective& objective);

/// Computes the direct logit attribution (Elhage et al. 2021; Wang et al. 2022) of a margin, a
/// logit or a difference of logits: the term of each part in the sum L. The places are "embedding",
/// "position", "L0H1", "L0 bias" (of the output projection), "L0 MLP" and "norm's bias". `study`
/// must be a study of this model with this objective. The scale of the final norm is held constant,
/// so that L is the sum of the contributions, up to rounding. Throws ValueError if the objective is
/// not linear in the logits (Objective::is_linear), for example a loss. Throws ValueError for
/// NormPlacement::kPost, because its norms change the output of a sublayer before the logits.
std::vector<Evidence> logit_attribution(const Transformer& model, const Study& study,
                                        const Objective& objective);

/// Returns the copying score of every head, in the order of all_heads() (Olsson et al. 2022,
/// "In-context learning and induction heads", appendix "Head activation evaluators"). The score is
/// measured on `sequences` random sequences, drawn with `seed`. No token occurs twice in a
/// sequence. At each position, the raise of a logit is its change by the head's output minus the
/// mean change over the vocabulary, or 0 if this is negative. The score is 4 s - 1. Here s is the
/// sum of the raises of the token with the largest attention weight, divided by the sum of the
/// raises of all tokens of the sequence. Both sums are over all positions. The score is -1 if s is
/// 0, 1 if s is 1/2, and 3 if s is 1. It is NaN if the head raises the logit of none of these
/// tokens. Throws ValueError for NormPlacement::kPost, because a head's output is then normalized
/// together with the stream.
std::vector<double> copying_scores(const Transformer& model, std::int64_t seed = 1,
                                   std::int64_t sequences = 8);

}  // namespace heed::nn
