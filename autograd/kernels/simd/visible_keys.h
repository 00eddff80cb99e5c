// Which keys the queries of an attention call may read, and so which scores need not be computed.
// Causality and a window are numbers; a mask is read once, by whatever heads share it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "autograd/kernels/simd/attention.h"
#include "autograd/kernels/simd/scratch.h"

namespace heed::autograd::kernels {

/// Keys [begin, end).
struct KeyRange {
  std::int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  std::int64_t size() const { return std::max<std::int64_t>(end - begin, 0); }
  friend KeyRange operator&(KeyRange a, KeyRange b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }
};

class VisibleKeys {
 public:
  /// Scores are computed in tiles of these many rows and columns.
  static constexpr std::int64_t kQueries = 48, kKeys = 384;

  /// Reads the mask, if there is one. tq > 0.
  explicit VisibleKeys(const AttentionShape& a);

  /// Keys before the first that causality hides from query i.
  std::int64_t causal_end(std::int64_t i) const {
    if (!a_.causal) return a_.tk;
    return std::clamp<std::int64_t>(i + 1 + a_.first_query, 0, a_.tk);
  }
  /// Keys that causality and the window leave to query i, and to any of n > 0 queries from i on.
  KeyRange row(std::int64_t i) const {
    KeyRange keys{0, causal_end(i)};
    if (a_.window == 0) return keys;
    const std::int64_t at = i + a_.first_query;
    keys.end = std::clamp<std::int64_t>(at + window_, 0, keys.end);
    keys.begin = std::clamp<std::int64_t>(at + 1 - window_, 0, keys.end);
    return keys;
  }
  KeyRange rows(std::int64_t i, std::int64_t n) const { return {row(i).begin, row(i + n - 1).end}; }

  /// Which of the masks is this head's: masks that heads share are one.
  std::int64_t mask_of(const LeadAxes& place) const;
  /// From the first to the last key that any query of such a head may read.
  KeyRange all(std::int64_t mask) const { return a_.keep ? all_.get()[mask] : rows(0, a_.tq); }
  /// Of each of tk keys whether any query may read it, in all(); null: yes.
  const std::uint8_t* read(std::int64_t mask) const {
    return a_.keep ? read_.get() + mask * a_.tk : nullptr;
  }
  /// From the first to the last of keys [j0, j0 + kKeys) that any of n queries from i0 on may read:
  /// i0 and j0 are where a tile begins.
  KeyRange tile(std::int64_t mask, std::int64_t i0, std::int64_t n, std::int64_t j0) const;

 private:
  void read_block(std::int64_t mask, std::int64_t block);
  std::int64_t mask_offset(std::int64_t mask) const;

  const AttentionShape& a_;
  const std::int64_t window_;         // at most as wide as everything: no sum overflows
  const std::int64_t masks_, tiles_;  // tiles_: of rows; 1 where all rows of a mask are one
  const std::int64_t blocks_;         // of kKeys columns
  const Scratch<std::uint8_t> read_;  // [masks_, tk]
  const Scratch<KeyRange> map_;       // [masks_, tiles_, blocks_]
  const Scratch<KeyRange> all_;       // [masks_]
};

}  // namespace heed::autograd::kernels
