// Sampling of tokens from a trained model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "nn/lab/names.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Options for the choice of the next token.
struct SampleOptions {
  double temperature = 1;  ///< positive number by which the logits are divided
  Index top_k = 0;         ///< k: only the k most likely tokens are sampled; 0: all tokens
  /// Only tokens of the smallest set of most likely tokens whose probabilities sum to at least
  /// top_p are sampled. Must be above 0 and at most 1.
  double top_p = 1;
  bool greedy = false;  ///< true: the most likely token is chosen, and no random numbers are drawn
};

/// Draws a token from logits of shape [classes]. Throws ValueError if an option is out of range,
/// and NumericError that names the first logit that is not finite.
Index sample_token(const Tensor& logits, const SampleOptions& options, Generator& g);

/// Returns the random stream of the sample with number `sample`, from 0. The stream of sample 0 is
/// Generator(seed).
Generator sample_stream(std::int64_t seed, std::int64_t sample);

/// Generates one sample for each stream in `streams`: up to n tokens that continue `ids`. All
/// samples are computed in one batch, but the tokens of a sample do not depend on the other
/// samples. Calls emit(sample, id) after each token; if emit returns false, this sample ends.
/// Beyond the context length, each new token takes a forward pass over the last `context` tokens,
/// at positions 0, 1, ... Cached keys and values cannot be used there, because from the second
/// layer on they depend on tokens before the last `context` tokens. Throws ValueError if `ids` or
/// `streams` are empty, or if an option is out of range. Throws NumericError if a logit is not
/// finite.
void generate_samples(const Transformer& model, const std::vector<Index>& ids, Index n,
                      const SampleOptions& options, std::span<Generator> streams,
                      const std::function<bool(Index sample, Index id)>& emit);

/// Generates one sample. Calls emit(id) after each token; if emit returns false, the sample ends.
/// Throws the errors of generate_samples().
void generate(const Transformer& model, const std::vector<Index>& ids, Index n,
              const SampleOptions& options, Generator& g,
              const std::function<bool(Index id)>& emit);

}  // namespace heed::lab
