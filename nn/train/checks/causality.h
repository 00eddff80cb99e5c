// A certificate that a model is causal: which inputs each output depends on, by derivatives that
// are exactly 0 or not. Shapes, losses and attention patterns do not show it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// How much each output moves with each input, and whether that is causal.
struct Reach {
  std::string name;     ///< of what was run, as "with a KV cache"
  std::int64_t length;  ///< T
  /// [T, T] by output, then input: the largest |d output t / d input s| over the channels of s, of
  /// one random combination of the channels of t. A gradient that is not 0 vanishes in it with
  /// probability 0.
  std::vector<double> values;
  std::vector<bool> padding = {};  ///< inputs that only their own output may read; empty: none

  struct Place {
    std::int64_t output, input;
    double value;
  };
  /// Returns the places where a later input, or padding, has a reach that is not exactly 0 (NaN is
  /// not).
  std::vector<Place> leaks() const;
  /// Returns the outputs that their own input does not reach.
  std::vector<Place> blind() const;
  bool ok() const { return leaks().empty() && blind().empty(); }
  double at(std::int64_t output, std::int64_t input) const {
    return values[std::size_t(output * length + input)];
  }
  /// Returns a line per output, a column per input: # reaches, . exactly 0, ! leaks, ? blind.
  std::string text() const;
};

/// Returns the reach of f at x [1, T, ...], float32 or float64: f maps [B, T, ...] to [B, T, ...]
/// for any batch size B. Outputs are differentiated 32 at a time, in one backward of as many copies
/// of x. `progress` receives outputs. ShapeError for another x or result.
Reach reach(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
            const std::string& name = "f", const ProgressCallback& progress = {});

struct Causality {
  std::vector<Reach> runs;
  bool ok() const;
};

/// The reach of a Transformer from its embedded tokens to its logits, at `length` (0: the least of
/// its context and 32) random tokens: of a plain pass, of passes whose last or first tokens are
/// padding, and of a pass in two parts through a KV cache. A cache takes no gradients: there
/// `values` are the largest changes of logits t when token s alone becomes another one, to the bit.
/// ValueError for a length below 2 or above the context. `progress` receives the outputs of all
/// passes.
Causality causality(const Transformer& model, std::int64_t length = 0,
                    const ProgressCallback& progress = {});

/// Tries three outputs, at random by `seed`, of min(context, 32) random tokens and returns the
/// later inputs that their derivatives reach: none in a causal model. NaN is ignored, because it
/// comes from weights that diverged. Costs one backward of three sequences.
std::vector<Reach::Place> spot_leaks(const Transformer& model, std::int64_t seed);

}  // namespace heed::nn
