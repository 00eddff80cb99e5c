// Finds the mistakes of an attention layer from its values and gradients.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/nn.h"

namespace heed::exercises {

/// Mistakes that check_attention() recognizes.
enum class Mistake {
  kNoScale,             ///< scores are not divided by sqrt(d_head)
  kScaledByModel,       ///< scores are divided by sqrt(d_model), not by sqrt(d_head)
  kMaskHidesItself,     ///< mask off by one: a query cannot attend to its own position
  kMaskShowsNext,       ///< mask off by one: a query can attend to the next position
  kMaskTransposed,      ///< a query can attend to its own and later positions only
  kMaskInverted,        ///< a query can attend to later positions only
  kNoMask,              ///< no key is masked
  kFiniteMask,          ///< masked scores are a number such as -1e9, not -inf
  kSoftmaxOverQueries,  ///< softmax over the axis of queries
  kSoftmaxOverHeads,    ///< softmax over the axis of heads
  kNoPermute,           ///< [heads, posn] is reshaped to [posn, heads * d_head] without a permute
  kHeadsSwapped,        ///< the heads are concatenated in reverse order
  kNoGradient,          ///< the values are right, but a gradient is wrong
  kUnknown,             ///< any other mistake
};
/// Returns a description such as "scores are not divided by sqrt(d_head)".
const char* describe(Mistake mistake);

/// Returns the output [batch, posn, d_model] for the input x [batch, posn, d_model].
using AttentionFunction =
    std::function<autograd::Tensor(const nn::HeadWeights&, const autograd::Tensor& x)>;

/// Result of check_attention().
struct AttentionFinding {
  std::vector<Mistake> mistakes;  ///< empty if the layer is right
  std::string message;            ///< description of the mistakes
  bool right() const { return mistakes.empty(); }
};

/// Finds the mistakes of f, which should be causal self-attention. Runs f and its gradients at two
/// points in float64. At one point the scores are ordinary numbers. At the other, they are about
/// -3e12 before scaling, which is far below -1e9. Then the function runs attention with each
/// combination of the mistakes above, until one combination has the same results as f. If f throws
/// an Error, the mistake is kUnknown and the message is the text of the error.
AttentionFinding check_attention(const AttentionFunction& f);

}  // namespace heed::exercises
