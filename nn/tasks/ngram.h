// N-gram models of text. The loss of a transformer is compared with their losses.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace heed::nn {

/// Interpolated n-gram models of orders 1, 2, ... (Witten and Bell 1991). The context of order n is
/// the last n - 1 tokens. Its estimate of a token's probability is (c + d p) / (s + d). Here s is
/// the number of tokens counted after this context, c is how many of them are this token, d is the
/// number of distinct tokens among them, and p is the estimate of order n - 1. The estimate of
/// order 0 is 1 / vocabulary.
class NgramModel {
 public:
  /// Constructs a model without counts, for token ids in [0, vocabulary) and the orders 1 to
  /// `order`. If all orders together later have more than `most` distinct n-grams, the highest
  /// order is dropped. Order 1 always remains. An n-gram takes about 60 bytes. Throws ValueError
  /// unless order is at least 1 and vocabulary is 1 to 65,536.
  NgramModel(std::int64_t vocabulary, std::int64_t order, std::size_t most = kMost);
  static constexpr std::size_t kMost = 4'000'000;  ///< default limit of distinct n-grams

  /// Starts a new text: tokens counted before this call are not context of later tokens. If `token`
  /// is not negative, it becomes the first token of the context, but it is not counted.
  void start(std::int64_t token = -1);
  /// Counts the next token of the text.
  void count(std::int64_t token);
  /// Returns the number of tokens counted.
  std::int64_t counted() const { return counted_; }
  /// Returns the highest order that was not dropped.
  std::size_t order() const { return levels_.size() - 1; }

  /// Returns the mean loss of each order, in nats per target. Element 0 is the loss of order 1. The
  /// prediction of targets[t] uses only inputs[0] to inputs[t]. Negative targets are ignored.
  std::vector<double> losses(std::span<const std::int64_t> inputs,
                             std::span<const std::int64_t> targets) const;

 private:
  using Node = std::uint32_t;  // index of an n-gram of length n in levels_[n].nodes
  struct Counts {
    std::uint32_t count = 0;     // number of times that the n-gram was counted
    std::uint32_t total = 0;     // number of tokens counted after the n-gram
    std::uint32_t distinct = 0;  // number of distinct tokens counted after it
  };
  struct Level {  // all n-grams of one length
    std::vector<Counts> nodes;
    std::unordered_map<std::uint64_t, Node> children;  // maps key() to a node of the next level
  };
  static std::uint64_t key(Node context, std::int64_t token) {
    return std::uint64_t{context} << 16 | std::uint64_t(token);
  }
  // Returns the node of the n-gram that is `context`, of this length, followed by `token`. Creates
  // the node if it does not exist.
  Node child(std::size_t length, Node context, std::int64_t token);
  void drop_longest();
  // Element n of `contexts` is the node of the last n tokens. Returns these nodes after one more
  // token, up to the longest context that was counted.
  std::vector<Node> advanced(const std::vector<Node>& contexts, std::int64_t token) const;

  std::int64_t vocabulary_, counted_ = 0;
  std::size_t most_, entries_ = 0;
  std::vector<Level> levels_;   // index: length of the n-gram, from 0 to the order
  std::vector<Node> contexts_;  // element n: node of the last n tokens, n < order
};

}  // namespace heed::nn
