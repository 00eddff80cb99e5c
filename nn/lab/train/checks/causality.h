// Checks that a model is causal: no output may depend on a later input. An output depends on an
// input if its derivative with respect to this input is not exactly 0. Shapes, losses and attention
// patterns do not show whether a model is causal.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nn/lab/names.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Returns how strongly outputs of f depend on the inputs, as a float64 tensor [n, T]. Element
/// (i, s) is the largest |derivative| of the output at position outputs[i] with respect to input s,
/// over the channels of input s. The output is a random linear combination of the channels at its
/// position. If a channel depends on input s, the derivative is therefore 0 only with probability
/// 0. `outputs` is int64 [n], and x is [1, T, ...] in float32 or float64. f maps [B, T, ...] to
/// [B, T, ...] for any batch size B. The cost is one backward pass on n copies of x. Throws
/// ShapeError if the result of f has another shape.
Tensor reach(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& outputs);

/// An output that depends on a later input.
struct Leak {
  Index output;  ///< position of the output
  Index input;   ///< position of the input
  double value;  ///< derivative, an element of reach()
};
/// Checks three outputs, chosen at random by `seed`, for min(context, 32) random tokens. Returns
/// the later inputs that they depend on; a causal model has none. NaN is ignored, because it comes
/// from weights that diverged. The cost is one forward and backward pass of three sequences.
std::vector<Leak> spot_leaks(const Transformer& model, std::int64_t seed);

}  // namespace heed::lab
