// Tells which mistake an attention layer makes, from its values and gradients alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/nn.h"

namespace heed::exercises {

enum class Mistake {
  kNoScale,          ///< scores are not divided by sqrt(d_head)
  kScaledByModel,    ///< ... but by sqrt(d_model)
  kMaskHidesItself,  ///< off by one: a position does not see itself
  kMaskShowsNext,    ///< off by one: a position sees the one after it
  kMaskTransposed,   ///< a position sees itself and what is later
  kMaskInverted,     ///< a position sees exactly what should be hidden
  kNoMask,
  kFiniteMask,  ///< -1e9 or the like, not -inf
  kSoftmaxOverQueries,
  kSoftmaxOverHeads,
  kNoPermute,  ///< [heads, posn] reshaped to [posn, heads * d_head] without a permute
  kHeadsSwapped,
  kNoGradient,  ///< values as they should be, a gradient not
  kUnknown,
};
const char* describe(Mistake mistake);

/// x [batch, posn, d_model] and weights of the form kPerHead -> [batch, posn, d_model].
using AttentionFunction =
    std::function<autograd::Tensor(const nn::AttentionWeights&, const autograd::Tensor& x)>;

struct AttentionFinding {
  std::vector<Mistake> mistakes;  ///< empty: right
  std::string message;
  bool right() const { return mistakes.empty(); }
};

/// Runs f, a causal self-attention, and its gradients at two points in float64: one with ordinary
/// scores, one with scores of -3e12, where -1e9 is large. Then every combination of the mistakes
/// above, until one gives the same. An Error that f throws is the message, and kUnknown.
AttentionFinding check_attention(const AttentionFunction& f);

}  // namespace heed::exercises
