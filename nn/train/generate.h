// Sampling of tokens from a trained model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "nn/io/setting.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Options for the choice of the next token.
struct SampleOptions {
  double temperature = 1;  ///< positive number by which the logits are divided
  std::int64_t top_k = 0;  ///< k: only the k most likely tokens are sampled; 0: all tokens
  /// Only tokens of the smallest set of most likely tokens whose probabilities sum to at least
  /// top_p are sampled. Must be above 0 and at most 1.
  double top_p = 1;
  bool greedy = false;  ///< true: the most likely token is chosen, and no random numbers are drawn
};

/// Method to continue a text that is longer than the context length. A shorter text always takes
/// one forward pass for the prompt, and then one pass per new token, which reads cached keys and
/// values.
enum class Past {
  /// Each new token takes a forward pass over the last `context` tokens, at positions 0, 1, ...
  /// Cached keys and values cannot be used, because from the second layer on they depend on tokens
  /// before the last `context` tokens.
  kRecompute,
  /// Each new token takes a forward pass of one token. The keys and values of the oldest cached
  /// token are dropped, and the rest of the cache is not changed. The logits equal those of one
  /// pass over the whole text in which each token attends to the last `context` tokens
  /// (KeepMask::sliding_window). Above the first layer, cached values depend on tokens that were
  /// dropped, so that up to layers x context tokens influence the next token. The encoding of
  /// positions must be relative (are_relative), because positions grow without bound.
  kSlide,
};
/// Names of Past on the command line.
template <>
inline constexpr auto kEnumNames<Past> = std::to_array({"recompute", "slide"});

/// Options of generate_samples().
struct GenerateOptions {
  SampleOptions sample = {};     ///< options for the choice of each token
  Past past = Past::kRecompute;  ///< method beyond the context length
  bool probabilities = false;    ///< whether to compute the probabilities of GeneratedToken
};

/// A generated token and its probability: the softmax of the logits, before temperature, top-k and
/// top-p.
struct GeneratedToken {
  std::int64_t id = 0;               ///< id of the token
  double probability = 1;            ///< probability of the token, 0 to 1
  std::int64_t runner_up = 0;        ///< most likely other token; `id` if there is only one token
  double runner_up_probability = 0;  ///< probability of `runner_up`, 0 to 1
};

/// Draws a token from logits of shape [classes]. Throws ValueError if an option is out of range,
/// and NumericError that names the first logit that is not finite.
std::int64_t sample_token(const Tensor& logits, const SampleOptions& options, Generator& g);

/// Returns the random stream of the sample with number `sample`, from 0. The stream of sample 0 is
/// Generator(seed).
Generator sample_stream(std::int64_t seed, std::int64_t sample);

/// Generates one sample for each stream in `streams`: up to n tokens that continue `ids`. All
/// samples are computed in one batch, but the tokens of a sample do not depend on the other
/// samples. Calls emit(sample, token) after each token; if emit returns false, this sample ends.
/// Throws ValueError if `ids` or `streams` are empty, if options.past is Past::kSlide and the
/// model's positions are not relative, or if an option is out of range. Throws NumericError if a
/// logit is not finite.
void generate_samples(const Transformer& model, const std::vector<std::int64_t>& ids,
                      std::int64_t n, const GenerateOptions& options, std::span<Generator> streams,
                      const std::function<bool(std::int64_t, const GeneratedToken&)>& emit);

/// Generates one sample, with probabilities and Past::kRecompute. Calls emit(token) after each
/// token; if emit returns false, the sample ends. Throws the errors of generate_samples().
void generate(const Transformer& model, const std::vector<std::int64_t>& ids, std::int64_t n,
              const SampleOptions& options, Generator& g,
              const std::function<bool(const GeneratedToken&)>& emit);

}  // namespace heed::nn
