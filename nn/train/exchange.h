// One run trained by several processes, the ranks: what each needs of the others. Rank r has shards
// rK/N to (r+1)K/N - 1 of the K of nn/train/shards.h, a subtree of their sum; ranks r and r xor 2^j
// swap what they have, for j = 0, 1, ..., and add: the same tree, so the bits of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers/module.h"
#include "nn/train/shards.h"

namespace heed::nn {

/// This process among its ranks.
struct Exchange {
  virtual ~Exchange() = default;
  int rank = 0, size = 1;
  /// Sends `mine` to rank `peer` and waits for as many bytes from it, which calls this likewise.
  virtual void swap(int peer, std::span<const std::byte> mine, std::span<std::byte> theirs) = 0;
  /// Whether this process has been asked to stop (Ctrl-C, SIGTERM).
  virtual bool stop_asked() const { return false; }
};

/// Bits of what ranks tell one another, or-ed.
enum RankWord : std::uint64_t {
  kNothing = 0,
  kStop = 1,     ///< it was asked to stop: the step is the last
  kLeft = 2,     ///< it takes no step any more: none is taken
  kTrouble = 4,  ///< its shards are not finite: none is taken
  kUnlike = 8,   ///< it found another with other bits
};

/// The words of all ranks or-ed, at every rank, once all have come here.
std::uint64_t or_words(Exchange& ranks, std::uint64_t word);
/// kUnlike, at every rank, unless all came with the same number; else kNothing.
std::uint64_t compare_numbers(Exchange& ranks, std::uint64_t number);

/// Sums of shards over all ranks.
class RankSum {
 public:
  /// ValueError unless there are a power of two of ranks. `ranks` outlives this.
  RankSum(Exchange& ranks, const std::vector<NamedTensor>& parameters);

  int rank() const { return ranks_.rank; }
  int size() const { return ranks_.size; }
  /// Turns the sum of this rank's shards into that of all shards, in log2 N rounds; a rank that
  /// comes with kLeft or kTrouble brings none, and then the sum is of no use. Returns the words of
  /// all or-ed, kStop of those that were asked included.
  std::uint64_t add(ShardGradients& part, std::uint64_t word);

 private:
  void pack(const ShardGradients& part);
  void unpack(ShardGradients& part) const;

  Exchange& ranks_;
  std::vector<NamedTensor> parameters_;
  std::size_t numbers_;                   // where they begin
  std::vector<std::byte> mine_, theirs_;  // word, loss, which gradients are there; the gradients
};

}  // namespace heed::nn
