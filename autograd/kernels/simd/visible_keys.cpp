#include "autograd/kernels/simd/visible_keys.h"

#include "autograd/base/parallel.h"

namespace heed::autograd::kernels {
namespace {

// Returns the number of different keep-masks of the heads, or 0 without a keep-mask.
Index count_masks(const AttentionShape& a) {
  if (!a.keep) return 0;
  Index n = 1;
  for (std::size_t i = 0; i < std::size_t(a.lead_axes); ++i)
    if (a.keep_at.lead[i] != 0) n *= a.lead[i];
  return n;
}

// Computes any[j] |= row[j * stride] for each of n columns j.
void add_row(std::uint8_t* __restrict any, const std::uint8_t* __restrict row, std::int64_t stride,
             Index n) {
  if (stride == 1)
    for (std::int64_t j = 0; j < n; ++j) any[j] = std::uint8_t(any[j] | row[j]);
  else
    for (std::int64_t j = 0; j < n; ++j) any[j] = std::uint8_t(any[j] | row[j * stride]);
}

// Returns the range from the first to the last flag that is not 0, among n flags.
KeyRange set_flags(const std::uint8_t* flags, std::int64_t n) {
  KeyRange found{0, n};
  while (found.end > 0 && !flags[found.end - 1]) --found.end;
  while (found.begin < found.end && !flags[found.begin]) ++found.begin;
  return found;
}

}  // namespace

VisibleKeys::VisibleKeys(const AttentionShape& a)
    : a_(a),
      window_(std::min(a.window, a.tq + a.tk)),
      masks_(count_masks(a)),
      tiles_(a.keep_at.row == 0 ? 1 : (a.tq + kQueries - 1) / kQueries),
      blocks_((a.tk + kKeys - 1) / kKeys),
      map_(masks_ * tiles_ * blocks_),
      all_(masks_) {
  const std::int64_t bytes = (a.keep_at.row == 0 ? 1 : a.tq) * kKeys;
  const Index grain = std::max<Index>(1, (1 << 16) / bytes);
  parallel_for(masks_ * blocks_, grain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) read_block(i / blocks_, i % blocks_);
  });
  for (Index mask = 0; mask < masks_; ++mask) {
    KeyRange keys = rows(0, a.tq);
    keys.end = keys.begin;
    for (Index i = 0; i < tiles_ * blocks_; ++i)
      if (const KeyRange found = map_.get()[mask * tiles_ * blocks_ + i]; !found.empty())
        keys.end = std::max(keys.end, found.end);
    all_.get()[mask] = keys;
  }
}

Index VisibleKeys::mask_of(const LeadAxes& place) const {
  Index mask = 0;
  for (std::size_t i = 0; i < std::size_t(a_.lead_axes); ++i)
    if (a_.keep_at.lead[i] != 0) mask = mask * a_.lead[i] + place[i];
  return mask;
}

// Returns the offset of a mask in the keep-mask array, given its index from mask_of().
Index VisibleKeys::mask_offset(Index mask) const {
  Index offset = 0;
  for (std::size_t i = std::size_t(a_.lead_axes); i-- > 0;) {
    if (a_.keep_at.lead[i] == 0) continue;
    offset += mask % a_.lead[i] * a_.keep_at.lead[i];
    mask /= a_.lead[i];
  }
  return offset;
}

// Reads one block of kKeys columns of a mask. Stores a range of keys for each tile.
void VisibleKeys::read_block(Index mask, Index block) {
  const KeyRange keys{block * kKeys, std::min(a_.tk, (block + 1) * kKeys)};
  const std::uint8_t* keep = reinterpret_cast<const std::uint8_t*>(a_.keep) + mask_offset(mask);
  for (Index tile = 0; tile < tiles_; ++tile) {
    std::uint8_t any[kKeys] = {};
    const auto add = [&](const std::uint8_t* row, KeyRange seen) {
      seen = seen & keys;
      if (seen.empty()) return;
      add_row(any + (seen.begin - keys.begin), row + seen.begin * a_.keep_at.column,
              a_.keep_at.column, seen.size());
    };
    const Index i0 = tile * kQueries;
    // If all queries share one mask row, this row is read for the keys rows(0, tq), which are the
    // union of the ranges of all queries. The union has no gaps, because the ranges of consecutive
    // queries overlap or are adjacent.
    if (a_.keep_at.row == 0)
      add(keep, rows(0, a_.tq));
    else
      for (Index i = i0; i < std::min(a_.tq, i0 + kQueries); ++i)
        add(keep + i * a_.keep_at.row, row(i));
    const KeyRange found = set_flags(any, keys.size());
    map_.get()[(mask * tiles_ + tile) * blocks_ + block] = {keys.begin + found.begin,
                                                            keys.begin + found.end};
  }
}

KeyRange VisibleKeys::tile(Index mask, Index i0, Index n, Index j0) const {
  const KeyRange keys = rows(i0, n) & KeyRange{j0, std::min(a_.tk, j0 + kKeys)};
  if (!a_.keep) return keys;
  const Index tile = a_.keep_at.row == 0 ? 0 : i0 / kQueries;
  return keys & map_.get()[(mask * tiles_ + tile) * blocks_ + j0 / kKeys];
}

}  // namespace heed::autograd::kernels
