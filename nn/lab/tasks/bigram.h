// Bigram model of a text. The loss of a transformer is compared with its loss.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "nn/lab/names.h"

namespace heed::lab {

/// Bigram model that is interpolated with the frequencies of single tokens (Witten and Bell 1991).
/// Its estimate of a token's probability after a context is (c + d p) / (s + d). Here s is the
/// number of tokens counted after this context, c is how many of them are this token, d is the
/// number of distinct tokens among them, and p is the same estimate without a context, which itself
/// is interpolated with 1 / vocabulary.
class BigramModel {
 public:
  /// Constructs a model without counts, for token ids in [0, vocabulary).
  explicit BigramModel(Index vocabulary)
      : after_(std::size_t(vocabulary)), tokens_(std::size_t(vocabulary)) {}

  /// Starts a new text: its first token has the context `token`, or none if this is negative.
  void start(Index token) { context_ = token; }
  /// Counts the next token of the text.
  void count(Index token) {
    if (++tokens_[std::size_t(token)] == 1) ++all_.distinct;
    ++all_.total;
    if (context_ >= 0) {
      Context& context = after_[std::size_t(context_)];
      if (++pairs_[key(context_, token)] == 1) ++context.distinct;
      ++context.total;
    }
    context_ = token;
  }
  /// Returns the number of tokens counted.
  Index counted() const { return Index(all_.total); }

  /// Returns the mean loss in nats per target. The prediction of targets[t] uses only inputs[t].
  /// Negative targets are ignored.
  double loss(std::span<const Index> inputs, std::span<const Index> targets) const {
    double nats = 0, count = 0;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      if (targets[t] < 0) continue;
      double p = 1 / double(tokens_.size());
      p = estimate(all_, tokens_[std::size_t(targets[t])], p);
      const auto found = pairs_.find(key(inputs[t], targets[t]));
      p = estimate(after_[std::size_t(inputs[t])], found == pairs_.end() ? 0 : found->second, p);
      nats -= std::log(p), ++count;
    }
    return nats / count;
  }

 private:
  struct Context {
    std::uint32_t total = 0;     // number of tokens counted after the context
    std::uint32_t distinct = 0;  // number of distinct tokens counted after it
  };
  static std::uint64_t key(Index context, Index token) {
    return std::uint64_t(context) << 16 | std::uint64_t(token);
  }
  static double estimate(const Context& context, double count, double p) {
    if (context.total == 0) return p;
    return (count + context.distinct * p) / (double(context.total) + context.distinct);
  }

  Context all_;                                             // of tokens without a context
  std::vector<Context> after_;                              // by token
  std::vector<std::uint32_t> tokens_;                       // times that a token was counted
  std::unordered_map<std::uint64_t, std::uint32_t> pairs_;  // by key()
  Index context_ = -1;                                      // the last token
};

}  // namespace heed::lab
