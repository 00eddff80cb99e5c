// Attention weights from changed scores.
#pragma once

#include "nn/layers/attention.h"

namespace heed::nn {

/// Returns the weights of changed scores S [B, H, Tq, Tk] of an attention, float64: the softmax of
/// each row, with the attention's sink if it has one. A score of -inf has the weight 0, also if all
/// scores of its row are -inf.
Tensor weights_of(const Tensor& scores, const MultiHeadAttention& attention);

}  // namespace heed::nn
