// N-gram models of text. Their losses are references for the loss of a transformer.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace heed::nn {

/// Interpolated n-gram models of orders 1 to n (Witten and Bell 1991). The estimate of order n
/// mixes the counts after the last n - 1 tokens with the estimate of order n - 1. The weight of the
/// latter is the number of different tokens that followed those n - 1 tokens. The estimate of order
/// 0 is 1 / vocabulary.
class NgramModel {
 public:
  /// Constructs a model of token ids in [0, vocabulary) without counts. If all orders together have
  /// more than `most` different n-grams, the highest order is dropped; order 1 always remains. An
  /// n-gram takes about 60 bytes. Throws ValueError unless order >= 1 and vocabulary is 1 to
  /// 65,536.
  NgramModel(std::int64_t vocabulary, std::int64_t order, std::size_t most = kMost);
  static constexpr std::size_t kMost = 4'000'000;  ///< default limit of different n-grams

  /// Starts a new text, so that the tokens before this call are not context of those after it. If
  /// `token` is not negative, it is the first token of the context, but it is not counted itself.
  void start(std::int64_t token = -1);
  /// Counts the next token of the text.
  void count(std::int64_t token);
  /// Returns the number of tokens counted.
  std::int64_t counted() const { return counted_; }
  /// Returns the highest order that has not been dropped.
  std::size_t order() const { return levels_.size() - 1; }

  /// Returns the mean loss of each order in nats per target, at index order - 1. The prediction of
  /// targets[t] uses inputs 0 .. t only. Negative targets are ignored.
  std::vector<double> losses(std::span<const std::int64_t> inputs,
                             std::span<const std::int64_t> targets) const;

 private:
  using Node = std::uint32_t;  // an n-gram: an index into levels_[n].nodes
  struct Counts {
    std::uint32_t count = 0;     // how often the n-gram was counted
    std::uint32_t total = 0;     // number of tokens counted after it
    std::uint32_t distinct = 0;  // number of different tokens counted after it
  };
  struct Level {  // the n-grams of one length
    std::vector<Counts> nodes;
    std::unordered_map<std::uint64_t, Node> children;  // key() -> node of the next level
  };
  static std::uint64_t key(Node context, std::int64_t token) {
    return std::uint64_t{context} << 16 | std::uint64_t(token);
  }
  // Returns the node of `context` followed by `token`. Creates it if it does not exist.
  Node child(std::size_t length, Node context, std::int64_t token);
  void drop_longest();
  // `contexts` has the nodes of the last 0, 1, ... tokens. Returns the same after one more token,
  // up to the longest context that was counted.
  std::vector<Node> advanced(const std::vector<Node>& contexts, std::int64_t token) const;

  std::int64_t vocabulary_, counted_ = 0;
  std::size_t most_, entries_ = 0;
  std::vector<Level> levels_;   // by length of the n-gram, 0 to the order
  std::vector<Node> contexts_;  // nodes of the last 0, 1, ... order - 1 tokens
};

}  // namespace heed::nn
