// Checks that a model is causal: no output may depend on a later input. An output depends on an
// input if its derivative with respect to this input is not exactly 0. Shapes, losses and attention
// patterns do not show whether a model is causal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Reach: how strongly each output depends on each input of a sequence of T tokens.
struct Reach {
  std::string name;     ///< kind of pass, such as "with a KV cache"
  std::int64_t length;  ///< T
  /// Derivatives as an array [T, T]: element (t, s) is the largest |d output t / d input s| over
  /// the channels of input s. Output t is a random linear combination of the channels at position
  /// t. If the channels depend on input s, the derivative is therefore 0 only with probability 0.
  std::vector<double> values;
  /// One element per input: true if the input is padding, on which only the output at the same
  /// position may depend. Empty without padding.
  std::vector<bool> padding = {};

  /// An output and an input, with the derivative of the output with respect to the input.
  struct Place {
    std::int64_t output;  ///< position of the output
    std::int64_t input;   ///< position of the input
    double value;         ///< derivative, an element of Reach::values
  };
  /// Returns the places where an output depends on a later input, or on padding at another
  /// position. There the value is NaN or not exactly 0.
  std::vector<Place> leaks() const;
  /// Returns the outputs that do not depend on the input at the same position.
  std::vector<Place> blind() const;
  /// Returns whether leaks() and blind() are both empty.
  bool ok() const { return leaks().empty() && blind().empty(); }
  /// Returns the value for an output and an input, by position.
  double at(std::int64_t output, std::int64_t input) const {
    return values[std::size_t(output * length + input)];
  }
  /// Returns one line per output with one character per input: # for a dependence, a dot for
  /// exactly 0, ! for a place of leaks(), ? for a place of blind().
  std::string text() const;
};

/// Returns the reach of f at x, which has shape [1, T, ...] and dtype float32 or float64. f maps
/// [B, T, ...] to [B, T, ...] for any batch size B. Derivatives of 32 outputs are computed in one
/// backward pass on 32 copies of x. `progress` receives the number of outputs done and T. Throws
/// ShapeError if x or the result of f has another shape.
Reach reach(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
            const std::string& name = "f", const ProgressCallback& progress = {});

/// Returns the reach of a Transformer from its embedded tokens to its logits, for `length` random
/// tokens (0: the smaller of the context and 32). The passes are: a plain pass, passes whose last
/// or first tokens are padding, and a pass in two halves through a KV cache. A cache does not
/// support gradients. In the pass with a cache, element (t, s) of `values` is therefore the largest
/// change of a logit at t if token s is replaced by another token. It is exactly 0 if the logits do
/// not depend on token s. Throws ValueError if `length` is below 2 or above the context. `progress`
/// receives the number of outputs done in all passes, and their total.
std::vector<Reach> causality(const Transformer& model, std::int64_t length = 0,
                             const ProgressCallback& progress = {});

/// Checks three outputs, chosen at random by `seed`, for min(context, 32) random tokens. Returns
/// the later inputs that they depend on; a causal model has none. NaN is ignored, because it comes
/// from weights that diverged. The cost is one forward and backward pass of three sequences.
std::vector<Reach::Place> spot_leaks(const Transformer& model, std::int64_t seed);

}  // namespace heed::nn
