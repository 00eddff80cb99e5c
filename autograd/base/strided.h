// Loops over strided operands of the same shape. Kernels that accept any strides use these loops.
#pragma once

#include <algorithm>
#include <array>

#include "autograd/base/parallel.h"
#include "autograd/base/shape.h"

namespace heed::autograd {

/// Loop over N operands of one shape, each with its own strides.
///
/// The constructor merges neighboring axes if the strides of all operands allow this. The elements
/// along the innermost axis that remains form an inner run. An inner run has inner() elements, and
/// each operand has one stride along the run, for example 1 for a contiguous operand and 0 for a
/// broadcast scalar. The loop consists of outer() inner runs.
template <int N>
class StridedLoop {
 public:
  using Offsets = std::array<Index, N>;  ///< one offset or stride per operand, in elements

  /// Prepares the loop. strides[k] are the strides of operand k, one per axis of `shape`.
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
    if (rank_ == 0) sizes_[rank_++] = 1;  // all sizes are 1: one run of one element
    for (int i = 0; i + 1 < rank_; ++i) outer_ *= sizes_[i];
    for (std::size_t k = 0; k < N; ++k) inner_strides_[k] = strides_[k][rank_ - 1];
  }

  /// Returns the number of inner runs.
  Index outer() const { return outer_; }
  /// Returns the number of elements of an inner run.
  Index inner() const { return sizes_[rank_ - 1]; }

  ///@{
  /// Calls f(offsets, n, strides) for the inner runs [begin, end), or for all runs, in row-major
  /// order. offsets[k] is the position of the run's first element in operand k; strides[k] is the
  /// distance between neighboring elements of the run in operand k; n is inner().
  template <class F>
  void run(F&& f, Index begin, Index end) const {
    if (begin >= end) return;
    std::array<Index, kMaxRank> index{};
    Offsets offset{};
    Index rest = begin;
    for (int i = rank_ - 2; i >= 0; --i) {
      index[std::size_t(i)] = rest % sizes_[i];
      rest /= sizes_[i];
      for (std::size_t k = 0; k < N; ++k) offset[k] += index[std::size_t(i)] * strides_[k][i];
    }
    for (Index o = begin;;) {
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
  ///@}

 private:
  int rank_ = 0;
  Index outer_ = 1;
  Index sizes_[kMaxRank] = {};
  Index strides_[N][kMaxRank] = {};
  Offsets inner_strides_{};
};

/// Work of one parallel chunk, in units of one addition.
inline constexpr Index kGrain = 1 << 12;

///@{
/// Calls body(offsets, n, strides) for all inner runs of the loop, in parallel. The arguments are
/// those of StridedLoop::run(). If the loop has only one run, the run is divided into pieces.
/// `cost` is the work per element, in units of one addition (default 1).
template <int N, class F>
void for_each_run(const StridedLoop<N>& loop, Index cost, F&& body) {
  const Index grain = kGrain / std::max<Index>(1, cost);
  if (loop.outer() == 1) {
    loop.run([&](const auto& offset, Index n, const auto& stride) {
      parallel_for(n, grain, [&](Index begin, Index end) {
        auto at = offset;
        for (std::size_t k = 0; k < N; ++k) at[k] += begin * stride[k];
        body(at, end - begin, stride);
      });
    });
    return;
  }
  parallel_for(loop.outer(), grain / std::max<Index>(1, loop.inner()),
               [&](Index begin, Index end) { loop.run(body, begin, end); });
}
template <int N, class F>
void for_each_run(const StridedLoop<N>& loop, F&& body) {
  for_each_run(loop, 1, body);
}
///@}

/// Calls body(y, y_stride, x, x_stride, n) in parallel for each line of elements along `axis`. The
/// arrays y and x have the same shape, and n is their size along `axis`. The pointers that body
/// receives refer to the first element of a line. Strides are in elements. `cost` is the work per
/// element, in units of one addition.
template <class T, class F>
void for_each_line(T* y, const Layout& y_at, const T* x, const Layout& x_at, int axis, Index cost,
                   F&& body) {
  const Strides to = y_at.strides.without(axis), from = x_at.strides.without(axis);
  const Index n = x_at.shape[axis], y_stride = y_at.strides[axis], x_stride = x_at.strides[axis];
  for_each_run(StridedLoop<2>(x_at.shape.without(axis), {&to, &from}), n * cost,
               [&](const auto& at, Index lines, const auto& s) {
                 for (Index i = 0; i < lines; ++i)
                   body(y + at[0] + i * s[0], y_stride, x + at[1] + i * s[1], x_stride, n);
               });
}

}  // namespace heed::autograd
