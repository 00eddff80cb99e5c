// Computes which keys the queries of an attention call may read, so that hidden tiles of scores are
// skipped. Causality and a window need only arithmetic. A keep-mask is read once, even if several
// heads share it.
#pragma once

#include <algorithm>

#include "autograd/kernels/simd/attention.h"
#include "autograd/kernels/simd/scratch.h"

namespace heed::autograd::kernels {

/// The keys with indices begin, ..., end - 1. The range is empty if begin >= end.
struct KeyRange {
  Index begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  Index size() const { return std::max<Index>(end - begin, 0); }
  /// Returns the intersection of two ranges.
  friend KeyRange operator&(KeyRange a, KeyRange b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }
};

/// The keys that queries of one attention call may read: for each query, for each tile of scores,
/// and for all queries together.
class VisibleKeys {
 public:
  /// Size of a tile of scores: its number of rows (queries) and of columns (keys).
  static constexpr Index kQueries = 48, kKeys = 384;

  /// Reads the keep-mask of `a`, if there is one. Requires tq > 0. `a` must outlive this object.
  explicit VisibleKeys(const AttentionShape& a);

  /// Returns the number of keys that causality allows query i to read. These are the keys [0,
  /// causal_end(i)).
  Index causal_end(Index i) const {
    if (!a_.causal) return a_.tk;
    return std::clamp<Index>(i + 1 + a_.tk - a_.tq, 0, a_.tk);
  }
  /// Returns the keys that causality and the window allow query i to read.
  KeyRange row(Index i) const {
    KeyRange keys{0, causal_end(i)};
    if (a_.window == 0) return keys;
    const Index at = i + a_.tk - a_.tq;
    keys.end = std::clamp<Index>(at + window_, 0, keys.end);
    keys.begin = std::clamp<Index>(at + 1 - window_, 0, keys.end);
    return keys;
  }
  /// Returns the keys that causality and the window allow at least one of the queries i, ..., i + n
  /// - 1 to read. Requires n > 0.
  KeyRange rows(Index i, Index n) const { return {row(i).begin, row(i + n - 1).end}; }

  /// Returns the index of the keep-mask of the head at `place`. Two heads share a mask if they
  /// differ only in axes along which the mask has stride 0.
  Index mask_of(const LeadAxes& place) const;
  /// Returns a range that contains every key that any query of a head with this mask may read. If
  /// there is a mask and the range is not empty, the last key of the range is such a key.
  KeyRange all(Index mask) const { return a_.keep ? all_.get()[mask] : rows(0, a_.tq); }
  /// Returns a range that contains every key in [j0, j0 + kKeys) that any of the queries i0, ...,
  /// i0 + n - 1 may read. Requires 0 < n <= kQueries. The queries must be in one tile, and j0 must
  /// be a multiple of kKeys.
  KeyRange tile(Index mask, Index i0, Index n, Index j0) const;

 private:
  void read_block(Index mask, Index block);
  Index mask_offset(Index mask) const;

  const AttentionShape& a_;
  const Index window_;           // window, but at most tq + tk, so that sums do not overflow
  const Index masks_;            // number of different keep-masks
  const Index tiles_;            // number of query tiles; 1 if all queries share one mask row
  const Index blocks_;           // number of key tiles
  const Scratch<KeyRange> map_;  // [masks_, tiles_, blocks_]: keys that the mask allows
  const Scratch<KeyRange> all_;  // [masks_]: ranges that all() returns
};

}  // namespace heed::autograd::kernels
