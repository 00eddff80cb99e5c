// Compares every result of VisibleKeys with a direct test of every pair (query, key).
#include "autograd/kernels/simd/visible_keys.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::autograd::kernels;
using I = std::int64_t;

// A random attention call. If it has a keep-mask, the mask has the shape [2, 3, tq, tk], but any
// axis of the mask may have size 1 instead.
struct RandomCall {
  AttentionShape a;
  std::unique_ptr<bool[]> keep;
  std::vector<bool> shared = {false, false};

  explicit RandomCall(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<I> from) {
      return *(from.begin() + random() % from.size());
    };
    a.lead_axes = 2, a.lead = {2, 3};
    a.tq = pick({1, 5, 47, 48, 49, 100, 200}), a.tk = pick({1, 7, 383, 384, 385, 800});
    a.causal = random() % 2 == 0;
    a.window = pick({0, 0, 1, 3, 48, 100, 400, I{1} << 60});
    if (random() % 3 == 0) return;
    const I rows = pick({1, a.tq, a.tq}), columns = pick({1, a.tk, a.tk, a.tk});
    shared = {random() % 2 == 0, random() % 2 == 0};
    const I heads = shared[1] ? 1 : 3, masks = (shared[0] ? 1 : 2) * heads;
    keep = std::make_unique<bool[]>(std::size_t(masks * rows * columns));
    const I patch = pick({1, 30, 150});  // the mask is constant in squares of this size
    const unsigned odds = random() % 8;
    for (I m = 0; m < masks; ++m)
      for (I i = 0; i < rows; i += patch)
        for (I j = 0; j < columns; j += patch) {
          const bool value = random() % 8 < odds;
          for (I r = i; r < std::min(rows, i + patch); ++r)
            for (I c = j; c < std::min(columns, j + patch); ++c)
              keep[std::size_t((m * rows + r) * columns + c)] = value;
        }
    a.keep = keep.get();
    a.keep_at = {.lead = {shared[0] ? 0 : heads * rows * columns, shared[1] ? 0 : rows * columns},
                 .row = rows == 1 ? 0 : columns,
                 .column = columns == 1 ? 0 : 1};
  }
  // Returns true if query i of head (x, y) may read key j.
  bool may_read(I x, I y, I i, I j) const {
    const I distance = j - (i + a.tk - a.tq);
    if (a.causal && distance > 0) return false;
    if (a.window > 0 && std::abs(distance) >= a.window) return false;
    return !a.keep || a.keep[x * a.keep_at.lead[0] + y * a.keep_at.lead[1] + i * a.keep_at.row +
                             j * a.keep_at.column];
  }
};

TEST_CASE("VisibleKeys agrees with a count of the cells, per row, per tile and in total") {
  std::mt19937 random(1);
  I hidden = 0, seen = 0;
  for (int n = 0; n < (kSanitized ? 100 : 200); ++n) {
    const RandomCall c(random);
    const AttentionShape& a = c.a;
    CAPTURE(n, a.tq, a.tk, a.causal, a.window, a.keep != nullptr);
    const VisibleKeys visible(a);
    for (I x = 0; x < 2; ++x)
      for (I y = 0; y < 3; ++y) {
        const I mask = visible.mask_of({x, y});
        const KeyRange all = visible.all(mask);
        I end = all.begin;  // end of the keys that any query may read
        for (I j = 0; j < a.tk; ++j) {
          bool any = false;
          for (I i = 0; i < a.tq; ++i) any = any || c.may_read(x, y, i, j);
          if (any) end = j + 1;
          REQUIRE((!any || (all.begin <= j && j < all.end)));
        }
        REQUIRE(all.end == end);
        for (I i0 = 0; i0 < a.tq; i0 += VisibleKeys::kQueries)
          for (I j0 = 0; j0 < a.tk; j0 += VisibleKeys::kKeys) {
            const I rows = std::min(a.tq - i0, VisibleKeys::kQueries);
            const KeyRange got = visible.tile(mask, i0, rows, j0);
            KeyRange want{a.tk, 0};
            for (I i = i0; i < i0 + rows; ++i)
              for (I j = j0; j < std::min(a.tk, j0 + VisibleKeys::kKeys); ++j) {
                if (!c.may_read(x, y, i, j)) continue;
                want = {std::min(want.begin, j), std::max(want.end, j + 1)};
                const KeyRange row = visible.row(i);
                REQUIRE((row.begin <= j && j < row.end && j < visible.causal_end(i)));
              }
            // If all queries share one mask row, the range may be larger than necessary. It is the
            // range from the first to the last key that the mask row allows, intersected with the
            // range that causality and the window allow the queries of the tile to read. The
            // intersection may contain no key that a query may read.
            const bool exact = !a.keep || a.keep_at.row != 0;
            if (exact) REQUIRE(got.empty() == want.empty());
            ++(got.empty() ? hidden : seen);
            if (want.empty()) continue;
            REQUIRE((got.begin <= want.begin && want.end <= got.end));
            if (exact) REQUIRE((got.begin == want.begin && got.end == want.end));
          }
      }
  }
  CHECK(hidden > (kSanitized ? 250 : 500));
  CHECK(seen > (kSanitized ? 250 : 500));
}

}  // namespace
