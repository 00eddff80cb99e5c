// The residual stream read as if it were the last one: logit lens, and a logit as the sum of what
// the parts of the model wrote into the stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/ablation.h"
#include "nn/study/study.h"

namespace heed::nn {

/// What the stream after a block would predict at a position: through the final norm, if there is
/// one, and the head.
struct LensCell {
  std::int64_t token;  ///< that is asked for; kIgnored: none, then rank 0, probability NaN
  double probability;  ///< of it
  std::int64_t rank;   ///< 1: no token is likelier
  std::int64_t top;    ///< the likeliest token
  double top_probability;
};
struct LogitLens {
  std::int64_t layers, length;
  std::vector<LensCell> cells;  ///< [layers, T]; the last layer is what the model predicts
  const LensCell& at(std::int64_t layer, std::int64_t position) const {
    return cells[std::size_t(layer * length + position)];
  }
};
/// Logit lens (nostalgebraist 2020) of the study of `one` sequence [1, T]: a logit's objective asks
/// for its token a, a loss for the targets. ShapeError for another batch size; ValueError for a
/// token that the model does not predict.
LogitLens logit_lens(const Transformer& model, const Study& study, const Batch& one,
                     const Objective& objective);

/// What a part of the model adds to L.
struct Contribution {
  std::string name;  ///< "embedding", "position", "L0H1", "L0 bias" (of the output projection),
                     ///< "L0 MLP", "norm's bias"
  Effect effect;
};
/// Direct logit attribution (Elhage et al. 2021; Wang et al. 2022) of a logit or a difference of
/// logits, from the study of it on a batch: the final norm is a division by a number that is held
/// as it is, so L is the sum of the parts, up to rounding. ValueError for a loss, which is not
/// linear in the logits, and for a model that normalizes after the sum (NormPlacement::kPost),
/// where what a sublayer wrote does not reach the logits unchanged.
std::vector<Contribution> logit_attribution(const Transformer& model, const Study& study,
                                            const Objective& objective);

}  // namespace heed::nn
