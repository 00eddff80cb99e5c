// Sampling from a trained model.
#pragma once

#include <functional>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

struct SampleOptions {
  double temperature = 1;  ///< > 0: logits are divided by it
  std::int64_t top_k = 0;  ///< keep the k most likely tokens; 0: all
  double top_p = 1;        ///< keep the fewest most likely tokens of at least this probability
  bool greedy = false;     ///< always the most likely; draws nothing
};

/// A token that was generated, and how likely the model held it: the softmax of its logits, before
/// temperature, top-k and top-p.
struct GeneratedToken {
  std::int64_t id = 0;
  double probability = 1;
  std::int64_t runner_up = 0;  ///< the likeliest of the others; `id` if there is no other
  double runner_up_probability = 0;
};

/// Draws a token from logits [classes]. ValueError on an option out of range, NumericError naming
/// the first logit that is not finite.
std::int64_t sample_token(const Tensor& logits, const SampleOptions& options, Generator& g);

/// Extends `ids` by up to n tokens, each predicted from the last `context` ones as positions 0,
/// 1, ... emit(token) after each; returning false stops. ValueError if ids is empty.
/// Up to `context` tokens a pass runs only the new one, on cached keys and values (the prompt in
/// one pass). Beyond, the window slides and each token costs a pass over all of it: positions
/// shift, and from the second layer on keys and values depend on the token that left, so cached
/// ones are wrong.
void generate(const Transformer& model, std::vector<std::int64_t> ids, std::int64_t n,
              const SampleOptions& options, Generator& g,
              const std::function<bool(const GeneratedToken&)>& emit);

}  // namespace heed::nn
