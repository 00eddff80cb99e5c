// Shapes, strides and the rules on them: broadcasting, axes, views. No data, no tensors.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>

#include "autograd/base/error.h"

namespace heed::autograd {

inline constexpr int kMaxRank = 8;

/// Up to eight integers, stored inline: a shape, strides, or a list of axes.
class Dims {
 public:
  constexpr Dims() = default;
  Dims(std::initializer_list<std::int64_t> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const std::int64_t> dims);
  /// `rank` entries, all `value`.
  static Dims filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[std::size_t(i)]; }
  std::int64_t& operator[](int i) { return dims_[std::size_t(i)]; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }
  /// Product of the entries; 1 at rank 0.
  std::int64_t numel() const;
  void push_back(std::int64_t value);
  void insert(int at, std::int64_t value);
  void erase(int at);
  /// Entries [from, to).
  Dims sub(int from, int to) const;
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};
using Shape = Dims;
using Strides = Dims;
/// Prints as [2, 3].
std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// The index of the element at row-major place `flat` of a shape without 0.
Dims unravel(std::int64_t flat, const Shape& shape);

/// How a tensor's elements lie in its storage, counted in elements. Strides may be 0 or negative.
struct Layout {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;

  static Layout contiguous(const Shape& shape);
  bool is_contiguous() const;
};

/// Normalizes an axis in [-rank, rank); ShapeError naming op, axis and shape otherwise.
int normalized_axis(std::string_view op, const Shape& shape, std::int64_t axis);
/// The shape both broadcast to (NumPy's rule); ShapeError naming both.
Shape broadcast(std::string_view op, const Shape& a, const Shape& b);

/// Views. All throw ShapeError naming `op`; none copies.
Layout permuted(std::string_view op, const Layout& x, const Dims& axes);
/// Broadcasts to `shape`: new and size-1 axes get stride 0.
Layout expanded(std::string_view op, const Layout& x, const Shape& shape);
/// Elements start, start+step, ... below `end` of one axis (start, end already clamped, step >= 1).
Layout sliced(const Layout& x, int axis, std::int64_t start, std::int64_t end, std::int64_t step);
/// The same elements in row-major order under a new shape, or nothing where strides forbid a view.
std::optional<Layout> reshaped(const Layout& x, const Shape& shape);

}  // namespace heed::autograd
