// One loop over N strided operands of one shape: merges axes that lie one inside the other, then
// hands out inner runs. A contiguous operand is a run of stride 1, a broadcast scalar of stride 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "autograd/base/parallel.h"
#include "autograd/base/shape.h"

namespace heed::autograd {

template <int N>
class StridedLoop {
 public:
  using Offsets = std::array<std::int64_t, N>;

  StridedLoop(const Shape& shape, const std::array<const Strides*, N>& strides) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == 1) continue;
      if (shape[i] == 0) outer_ = 0;
      bool merge = rank_ > 0;
      for (std::size_t k = 0; merge && k < N; ++k)
        merge = strides_[k][rank_ - 1] == (*strides[k])[i] * shape[i];
      if (merge) {
        sizes_[rank_ - 1] *= shape[i];
      } else {
        sizes_[rank_++] = shape[i];
      }
      for (std::size_t k = 0; k < N; ++k) strides_[k][rank_ - 1] = (*strides[k])[i];
    }
    if (rank_ == 0) sizes_[rank_++] = 1;  // one element; strides are 0
    for (int i = 0; i + 1 < rank_; ++i) outer_ *= sizes_[i];
    for (std::size_t k = 0; k < N; ++k) inner_strides_[k] = strides_[k][rank_ - 1];
  }

  /// Number of inner runs, and the length of each.
  std::int64_t outer() const { return outer_; }
  std::int64_t inner() const { return sizes_[rank_ - 1]; }

  /// f(offsets, n, inner strides) for the runs [begin, end), in row-major order.
  template <class F>
  void run(F&& f, std::int64_t begin, std::int64_t end) const {
    if (begin >= end) return;
    std::array<std::int64_t, kMaxRank> index{};
    Offsets offset{};
    std::int64_t rest = begin;
    for (int i = rank_ - 2; i >= 0; --i) {
      index[std::size_t(i)] = rest % sizes_[i];
      rest /= sizes_[i];
      for (std::size_t k = 0; k < N; ++k) offset[k] += index[std::size_t(i)] * strides_[k][i];
    }
    for (std::int64_t o = begin;;) {
      f(offset, inner(), inner_strides_);
      if (++o == end) return;
      for (int i = rank_ - 2; i >= 0; --i) {
        for (std::size_t k = 0; k < N; ++k) offset[k] += strides_[k][i];
        if (++index[std::size_t(i)] < sizes_[i]) break;
        for (std::size_t k = 0; k < N; ++k) offset[k] -= sizes_[i] * strides_[k][i];
        index[std::size_t(i)] = 0;
      }
    }
  }
  template <class F>
  void run(F&& f) const {
    if (outer_ == 1)
      f(Offsets{}, inner(), inner_strides_);
    else
      run(f, 0, outer_);
  }

 private:
  int rank_ = 0;
  std::int64_t outer_ = 1;
  std::int64_t sizes_[kMaxRank] = {};
  std::int64_t strides_[N][kMaxRank] = {};
  Offsets inner_strides_{};
};

inline constexpr std::int64_t kGrain = 1 << 12;  // elements of one parallel chunk

/// body(offsets, n, strides) for every inner run of the loop, in parallel. `cost` is the work of
/// one element, in additions.
template <int N, class F>
void for_each_run(const StridedLoop<N>& loop, std::int64_t cost, F&& body) {
  const std::int64_t grain = kGrain / std::max<std::int64_t>(1, cost);
  if (loop.outer() == 1) {
    loop.run([&](const auto& offset, std::int64_t n, const auto& stride) {
      parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
        auto at = offset;
        for (std::size_t k = 0; k < N; ++k) at[k] += begin * stride[k];
        body(at, end - begin, stride);
      });
    });
    return;
  }
  parallel_for(loop.outer(), grain / std::max<std::int64_t>(1, loop.inner()),
               [&](std::int64_t begin, std::int64_t end) { loop.run(body, begin, end); });
}
template <int N, class F>
void for_each_run(const StridedLoop<N>& loop, F&& body) {
  for_each_run(loop, 1, body);
}

/// body(y, y_stride, x, x_stride, n) for every line of n elements along one axis of y and x, which
/// have one shape; in parallel. `cost` is the work of one element, in additions.
template <class T, class F>
void for_each_line(T* y, const Layout& y_at, const T* x, const Layout& x_at, int axis,
                   std::int64_t cost, F&& body) {
  const Strides to = y_at.strides.without(axis), from = x_at.strides.without(axis);
  const std::int64_t n = x_at.shape[axis], y_stride = y_at.strides[axis],
                     x_stride = x_at.strides[axis];
  for_each_run(StridedLoop<2>(x_at.shape.without(axis), {&to, &from}), n * cost,
               [&](const auto& at, std::int64_t lines, const auto& s) {
                 for (std::int64_t i = 0; i < lines; ++i)
                   body(y + at[0] + i * s[0], y_stride, x + at[1] + i * s[1], x_stride, n);
               });
}

}  // namespace heed::autograd
