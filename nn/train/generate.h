// Sampling from a trained model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "nn/io/setting.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

struct SampleOptions {
  double temperature = 1;  ///< > 0: logits are divided by it
  std::int64_t top_k = 0;  ///< keep the k most likely tokens; 0: all
  double top_p = 1;        ///< keep the fewest most likely tokens of at least this probability
  bool greedy = false;     ///< always the most likely; draws nothing
};

/// How to continue beyond the model's context. Up to there a pass runs only the new token, on
/// cached keys and values (the prompt in one pass).
enum class Past {
  /// A pass over the last `context` tokens as positions 0, 1, ...: what is cached of them rests,
  /// from the second layer on, on tokens that have left.
  kRecompute,
  /// One token a pass, as before: the oldest cached token is dropped, the others stay as they are.
  /// The logits are those of one pass over the whole text in which each token sees the last
  /// `context`
  /// ones (KeepMask::sliding_window). Above the first layer cached values have seen tokens that
  /// were
  /// dropped, so up to layers x context tokens reach the last one. Positions must be relative
  /// (are_relative), because they grow without end.
  kSlide,
};
template <>
struct EnumNames<Past> {
  static constexpr std::pair<Past, const char*> kTable[] = {{Past::kRecompute, "recompute"},
                                                            {Past::kSlide, "slide"}};
};

struct GenerateOptions {
  SampleOptions sample = {};
  Past past = Past::kRecompute;
  bool probabilities = false;  ///< fills in those of GeneratedToken
};

/// A token that was generated, and how likely the model held it: the softmax of its logits, before
/// temperature, top-k and top-p.
struct GeneratedToken {
  std::int64_t id = 0;
  double probability = 1;
  std::int64_t runner_up = 0;  ///< the most likely other token; `id` if there is only one
  double runner_up_probability = 0;
};

/// Draws a token from logits [classes]. ValueError on an option out of range, NumericError naming
/// the first logit that is not finite.
std::int64_t sample_token(const Tensor& logits, const SampleOptions& options, Generator& g);

/// Returns the random stream of sample 0, 1, ... of a seed; that of sample 0 is Generator(seed).
Generator sample_stream(std::int64_t seed, std::int64_t sample);

/// Extends `ids` once for each stream, all in one batch, by up to n tokens each; a sample's tokens
/// are what they are without the others. emit(sample, token) after each; returning false ends that
/// sample. ValueError if ids or streams are empty, or if the model's positions cannot slide;
/// errors as sample_token(), NumericError of a logit that is not finite among them.
void generate_samples(const Transformer& model, const std::vector<std::int64_t>& ids,
                      std::int64_t n, const GenerateOptions& options, std::span<Generator> streams,
                      const std::function<bool(std::int64_t, const GeneratedToken&)>& emit);

/// One sample, with probabilities, recomputing what is past the context. Errors likewise.
void generate(const Transformer& model, const std::vector<std::int64_t>& ids, std::int64_t n,
              const SampleOptions& options, Generator& g,
              const std::function<bool(const GeneratedToken&)>& emit);

}  // namespace heed::nn
