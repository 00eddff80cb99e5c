// Shapes, strides and the rules on them: broadcasting, axes, views. No data, no tensors.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"

namespace heed::autograd {

inline constexpr int kMaxRank = 8;

/// Up to eight integers, stored inline: a shape, strides, or a list of axes. Made from {2, 3}, from
/// one integer, or from a vector of integers.
class Dims {
 public:
  constexpr Dims() = default;
  Dims(std::initializer_list<std::int64_t> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  template <std::integral T>
  Dims(T size) : Dims({std::int64_t(size)}) {}
  Dims(bool) = delete;  // sum(x, true) has lost its axes
  Dims(const std::vector<std::int64_t>& dims) : Dims(std::span(dims)) {}
  Dims(const std::vector<int>& dims);
  explicit Dims(std::span<const std::int64_t> dims);
  /// `rank` entries, all `value`.
  static Dims filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  /// Entry i, from the back for i < 0; ShapeError when out of range. Hot loops use data().
  std::int64_t operator[](int i) const { return dims_[place(i)]; }
  std::int64_t& operator[](int i) { return dims_[place(i)]; }
  const std::int64_t* data() const { return dims_.data(); }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  std::int64_t back() const { return (*this)[-1]; }
  /// Product of the entries; 1 at rank 0.
  std::int64_t numel() const;
  void push_back(std::int64_t value);
  /// Copies: with another entry i, without entry i, with `more` behind the last entry.
  Dims with(int i, std::int64_t value) const;
  Dims without(int i) const;
  Dims joined(const Dims& more) const;
  /// Entries [from, to).
  Dims sub(int from, int to) const;
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < std::size_t(a.rank_); ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::size_t place(int i) const {
    return unsigned(i) < unsigned(rank_) ? std::size_t(i) : place_from_back(i);
  }
  std::size_t place_from_back(int i) const;

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};
using Shape = Dims;
using Strides = Dims;
/// Appends the text of `dims`, as [2, 3].
void append_text(std::string& out, const Dims& dims);
/// Returns the text of `dims`, as "[2, 3]".
std::string to_text(const Dims& dims);
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
  /// Returns the first axis along which elements repeat (stride 0, size above 1), or -1. A layout
  /// of no elements repeats none.
  int repeated_axis() const;
  /// Returns where the element at `index` lies, counted from the first.
  std::int64_t offset_of(const Dims& index) const;
};

/// Normalizes an axis in [-rank, rank); ShapeError naming op, axis and shape otherwise.
int normalized_axis(std::string_view op, const Shape& shape, std::int64_t axis);
/// Normalizes the place of a new axis in [-rank - 1, rank]; ShapeError otherwise.
int normalized_new_axis(std::string_view op, const Shape& shape, std::int64_t axis);
/// The shape both broadcast to (NumPy's rule); ShapeError naming both.
Shape broadcast(std::string_view op, const Shape& a, const Shape& b);

/// Views. All throw ShapeError naming `op`; none copies.
Layout permuted(std::string_view op, const Layout& x, const Dims& axes);
/// Broadcasts to `shape`: new and size-1 axes get stride 0.
Layout expanded(std::string_view op, const Layout& x, const Shape& shape);
/// Elements start, start+step, ... below `end` of one axis (start, end already clamped, step >= 1).
Layout sliced(const Layout& x, int axis, std::int64_t start, std::int64_t end, std::int64_t step);
/// Returns a view of the elements, in row-major order, under a new shape; nothing if strides forbid
/// it.
std::optional<Layout> reshaped(const Layout& x, const Shape& shape);

}  // namespace heed::autograd
