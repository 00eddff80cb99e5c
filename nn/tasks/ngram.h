// Counting models of text: what a transformer has to beat.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace heed::nn {

/// Interpolated n-grams of every order up to one (Witten and Bell 1991): the estimate of order n
/// mixes the counts after the last n - 1 tokens with the estimate of order n - 1, which weighs as
/// much as those tokens had different successors. Below order 1: 1 / vocabulary.
class NgramModel {
 public:
  /// Counts text, of ids in [0, vocabulary). ValueError unless 1 <= order and `order` ids fit into
  /// 64 bits.
  NgramModel(std::span<const std::uint16_t> text, std::int64_t vocabulary, std::int64_t order);

  /// Mean nats per target by order (at [n - 1]), each target after inputs 0 .. t only. Targets
  /// below 0 count nowhere.
  std::vector<double> losses(std::span<const std::int64_t> inputs,
                             std::span<const std::int64_t> targets) const;

 private:
  struct Context {
    std::uint32_t total = 0, distinct = 0;  // successors, and different ones
  };
  struct Order {
    std::unordered_map<std::uint64_t, std::uint32_t> counts;  // of n tokens
    std::unordered_map<std::uint64_t, Context> contexts;      // of their first n - 1
  };
  std::int64_t vocabulary_;
  int bits_;  // per token in a key
  std::vector<Order> orders_;
};

}  // namespace heed::nn
