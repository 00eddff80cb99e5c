// Counting models of text: references for a transformer's loss.
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
  /// A model of ids in [0, vocabulary), to be counted by count(). ValueError unless order >= 1 and
  /// vocabulary is 1 to 65,536. Above `most` different n-grams of all orders the highest order is
  /// forgotten, and so on down to 1: an entry takes about 60 bytes.
  NgramModel(std::int64_t vocabulary, std::int64_t order, std::size_t most = kMost);
  static constexpr std::size_t kMost = 4'000'000;

  /// Starts a text: the next tokens have no context but `token`, unless it is negative, which is
  /// not counted.
  void start(std::int64_t token = -1);
  /// Counts the next token.
  void count(std::int64_t token);
  std::int64_t counted() const { return counted_; }
  /// The highest order that is kept.
  std::size_t order() const { return levels_.size() - 1; }

  /// Mean nats per target by order (at [n - 1]), each target after inputs 0 .. t only. Targets
  /// below 0 count nowhere.
  std::vector<double> losses(std::span<const std::int64_t> inputs,
                             std::span<const std::int64_t> targets) const;

 private:
  using Node = std::uint32_t;  // an n-gram: its place in levels_[n].nodes
  struct Counts {
    std::uint32_t count = 0;                // of the n-gram
    std::uint32_t total = 0, distinct = 0;  // its successors, and different ones
  };
  struct Level {  // the n-grams of one length
    std::vector<Counts> nodes;
    std::unordered_map<std::uint64_t, Node> children;  // with one more token: in the next level
  };
  static std::uint64_t key(Node context, std::int64_t token) {
    return std::uint64_t{context} << 16 | std::uint64_t(token);
  }
  Node child(std::size_t length, Node context, std::int64_t token);  // made if new
  void drop_longest();
  // The nodes of the last 0, 1, ... tokens, of which `token` becomes the last: as far as seen.
  std::vector<Node> advanced(const std::vector<Node>& contexts, std::int64_t token) const;

  std::int64_t vocabulary_, counted_ = 0;
  std::size_t most_, entries_ = 0;
  std::vector<Level> levels_;   // by length, 0 to the order
  std::vector<Node> contexts_;  // of the last 0, 1, ... order - 1 tokens
};

}  // namespace heed::nn
