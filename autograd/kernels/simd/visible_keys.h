// Computes which keys the queries of an attention call may read, so that hidden tiles of scores are
// skipped. For causality and a window this is arithmetic. A keep-mask is read once, even if several
// heads share it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "autograd/kernels/simd/attention.h"
#include "autograd/kernels/simd/scratch.h"

namespace heed::autograd::kernels {

/// The keys with begin <= index < end. The range is empty if begin >= end.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  std::int64_t size() const { return std::max<std::int64_t>(end - begin, 0); }
  /// Returns the intersection of two ranges.
  friend KeyRange operator&(KeyRange a, KeyRange b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }
};

/// The visible keys of one attention call: for each query, for each tile of scores and for all
/// queries together.
class VisibleKeys {
 public:
  /// Numbers of rows (queries) and columns (keys) of a tile of scores.
  static constexpr std::int64_t kQueries = 48, kKeys = 384;

  /// Reads the keep-mask, if there is one. Requires tq > 0. `a` must outlive this object.
  explicit VisibleKeys(const AttentionShape& a);

  /// Returns the number of keys that causality leaves to query i: keys [0, causal_end(i)).
  std::int64_t causal_end(std::int64_t i) const {
    if (!a_.causal) return a_.tk;
    return std::clamp<std::int64_t>(i + 1 + a_.first_query, 0, a_.tk);
  }
  /// Returns the keys that causality and the window leave to query i.
  KeyRange row(std::int64_t i) const {
    KeyRange keys{0, causal_end(i)};
    if (a_.window == 0) return keys;
    const std::int64_t at = i + a_.first_query;
    keys.end = std::clamp<std::int64_t>(at + window_, 0, keys.end);
    keys.begin = std::clamp<std::int64_t>(at + 1 - window_, 0, keys.end);
    return keys;
  }
  /// Returns the keys that causality and the window leave to at least one of the n > 0 queries that
  /// start at query i.
  KeyRange rows(std::int64_t i, std::int64_t n) const { return {row(i).begin, row(i + n - 1).end}; }

  /// Returns the index of the mask that the head at index `place` uses. Heads for which the mask
  /// has stride 0 share one mask.
  std::int64_t mask_of(const LeadAxes& place) const;
  /// Returns the range from the first to the last key that any query of a head with this mask may
  /// read.
  KeyRange all(std::int64_t mask) const { return a_.keep ? all_.get()[mask] : rows(0, a_.tq); }
  /// Returns one flag per key: not 0 if any query may read the key. Returns null if there is no
  /// mask; all keys in all() are then readable.
  const std::uint8_t* read(std::int64_t mask) const {
    return a_.keep ? read_.get() + mask * a_.tk : nullptr;
  }
  /// Returns the range from the first to the last key in [j0, j0 + kKeys) that any of the n queries
  /// from i0 on may read. The tile must start at multiples of kQueries and kKeys.
  KeyRange tile(std::int64_t mask, std::int64_t i0, std::int64_t n, std::int64_t j0) const;

 private:
  void read_block(std::int64_t mask, std::int64_t block);
  std::int64_t mask_offset(std::int64_t mask) const;

  const AttentionShape& a_;
  const std::int64_t window_;         // at most tq + tk, so that sums do not overflow
  const std::int64_t masks_;          // number of different masks
  const std::int64_t tiles_;          // tiles along the queries; 1 if all queries share a mask row
  const std::int64_t blocks_;         // tiles along the keys
  const Scratch<std::uint8_t> read_;  // [masks_, tk]
  const Scratch<KeyRange> map_;       // [masks_, tiles_, blocks_]
  const Scratch<KeyRange> all_;       // [masks_]
};

}  // namespace heed::autograd::kernels
