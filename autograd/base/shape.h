// Shapes, strides and layouts, and the rules for broadcasting, axes and views. Nothing in this
// header accesses a tensor or its data.
//
// Functions with a parameter `op` throw ShapeError with a text that starts with `op` and states the
// invalid shapes, axes or sizes.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/index.h"

namespace heed::autograd {

/// The largest number of axes of a tensor.
inline constexpr int kMaxRank = 8;

/// A list of at most eight integers, stored without a memory allocation. It is used for shapes,
/// strides and axes. A braced list such as {2, 3}, an integer and a vector of integers convert to
/// Dims.
class Dims {
 public:
  ///@{
  /// Creates an empty list, or a list of the given integers. Throws ShapeError if there are more
  /// than eight.
  constexpr Dims() = default;
  Dims(std::initializer_list<Index> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  template <std::integral T>
  Dims(T size) : Dims({Index(size)}) {}
  Dims(const std::vector<Index>& dims) : Dims(std::span(dims)) {}
  Dims(const std::vector<int>& dims);
  explicit Dims(std::span<const Index> dims) : rank_(int(dims.size())) {
    if (dims.size() > kMaxRank) [[unlikely]]
      fail_rank(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
  }
  ///@}
  Dims(bool) = delete;  // otherwise `true` in sum(x, true) would become axis 1
  /// Returns a list of `rank` entries, all equal to `value`. Throws ShapeError if rank > 8.
  static Dims filled(int rank, Index value);

  /// Returns the number of entries.
  int rank() const { return rank_; }
  ///@{
  /// Returns entry i. A negative i counts from the back: -1 is the last entry. Throws ShapeError if
  /// i is out of range. data() does not check the index; it is meant for hot loops.
  Index operator[](int i) const { return dims_[position(i)]; }
  Index& operator[](int i) { return dims_[position(i)]; }
  ///@}
  ///@{
  /// data() and begin() return a pointer to the first entry. end() returns the pointer after the
  /// last entry.
  const Index* data() const { return dims_.data(); }
  const Index* begin() const { return dims_.data(); }
  const Index* end() const { return dims_.data() + rank_; }
  ///@}
  /// Returns the last entry. Throws ShapeError if the list is empty.
  Index back() const { return (*this)[-1]; }
  /// Returns the product of the entries, which is 1 for an empty list.
  Index numel() const {
    Index n = 1;
    for (const Index d : *this) n *= d;
    return n;
  }
  /// Appends an entry. Throws ShapeError if the list already has eight entries.
  void push_back(Index value) {
    if (rank_ == kMaxRank) [[unlikely]]
      fail_rank(kMaxRank + 1);
    dims_[std::size_t(rank_++)] = value;
  }
  /// Returns a copy in which entry i is `value`. Throws ShapeError if i is out of range.
  Dims with(int i, Index value) const {
    Dims d = *this;
    d[i] = value;
    return d;
  }
  /// Returns a copy without entry i. Throws ShapeError if i is out of range.
  Dims without(int i) const {
    Dims d = *this;
    for (std::size_t at = position(i); at + 1 < std::size_t(rank_); ++at)
      d.dims_[at] = dims_[at + 1];
    --d.rank_;
    return d;
  }
  /// Returns a list with the entries of this list, followed by the entries of `more`. Throws
  /// ShapeError if these are more than eight.
  Dims joined(const Dims& more) const {
    Dims d = *this;
    for (const Index value : more) d.push_back(value);
    return d;
  }
  /// Returns a list of the entries with index i, where from <= i < to. Requires from >= 0 and
  /// to <= rank().
  Dims sub(int from, int to) const {
    return Dims(std::span(begin() + from, std::size_t(to > from ? to - from : 0)));
  }
  /// Returns true if a and b have equal entries in the same order.
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < std::size_t(a.rank_); ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::size_t position(int i) const {
    return unsigned(i) < unsigned(rank_) ? std::size_t(i) : position_from_back(i);
  }
  std::size_t position_from_back(int i) const;
  [[noreturn]] static void fail_rank(std::size_t rank);

  std::array<Index, kMaxRank> dims_{};
  int rank_ = 0;
};
using Shape = Dims;    ///< sizes of the axes of a tensor
using Strides = Dims;  ///< distance, in elements, between neighbors along each axis
/// Appends the text of `dims`, for example [2, 3].
void append_text(std::string& out, const Dims& dims);
/// Returns the text of `dims`, for example "[2, 3]".
std::string to_text(const Dims& dims);
/// Prints to_text(dims).
std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// Converts a row-major flat index into one index per axis, as NumPy's unravel_index does. The
/// sizes in `shape` must not be 0.
Dims unravel(Index flat, const Shape& shape);

/// Position of a tensor's elements in its storage. All numbers count elements, not bytes.
struct Layout {
  Shape shape;       ///< size of each axis, at least 0
  Strides strides;   ///< one per axis; a stride may be 0 or negative
  Index offset = 0;  ///< position of the element with index [0, ..., 0] in the storage

  /// Returns the row-major layout of a shape, with offset 0.
  static Layout contiguous(const Shape& shape) {
    Layout layout{shape, shape, 0};
    Index stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      layout.strides[i] = stride;
      stride *= shape.data()[i];
    }
    return layout;
  }
  /// Returns true if the elements are adjacent in memory and in row-major order. The offset does
  /// not affect the result.
  bool is_contiguous() const {
    const Index *sizes = shape.data(), *steps = strides.data();
    Index stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      if (sizes[i] == 0) return true;
      if (sizes[i] != 1 && steps[i] != stride) return false;
      stride *= sizes[i];
    }
    return true;
  }
  /// Returns the first axis that has stride 0 and a size above 1. Along such an axis, all indices
  /// refer to one element. Returns -1 if the layout has no such axis or no elements.
  int repeated_axis() const;
  /// Returns the distance, in elements, from the element with index [0, ..., 0] to the element at
  /// `index`.
  Index offset_of(const Dims& index) const;
};

namespace detail {
[[noreturn]] void fail_axis(std::string_view op, const Shape& shape, Index axis);
}
/// Converts an axis in [-rank, rank) to the range [0, rank). A negative axis counts from the back:
/// -1 is the last axis. Throws ShapeError for any other axis.
inline int normalized_axis(std::string_view op, const Shape& shape, Index axis) {
  const Index rank = shape.rank(), normalized = axis < 0 ? axis + rank : axis;
  if (normalized < 0 || normalized >= rank) [[unlikely]]
    detail::fail_axis(op, shape, axis);
  return int(normalized);
}
/// Converts the position of a new axis in [-rank - 1, rank] to the range [0, rank]. Throws
/// ShapeError for any other position.
int normalized_new_axis(std::string_view op, const Shape& shape, Index axis);
/// Returns the shape to which the shapes a and b broadcast by NumPy's rules. Throws ShapeError if
/// the two shapes do not broadcast.
Shape broadcast(std::string_view op, const Shape& a, const Shape& b);

/// Returns the number of elements of a shape. Throws ShapeError if a size is negative or if there
/// are more than 2^40 elements.
Index checked_numel(std::string_view op, const Shape& shape);

/// Returns a view in which axis i is axis axes[i] of x. Throws ShapeError if `axes` does not
/// contain each axis exactly once.
Layout permuted(std::string_view op, const Layout& x, const Dims& axes);
/// Returns a view of x that is broadcast to `shape`. New axes get stride 0, and so do axes of size
/// 1 that become larger. Throws ShapeError if x does not broadcast to `shape`.
Layout expanded(std::string_view op, const Layout& x, const Shape& shape);
/// Returns a view of the elements start, start + step, ... below `end` along one axis. Both bounds
/// must be within the axis, and step must be at least 1.
Layout sliced(const Layout& x, int axis, Index start, Index end, Index step);
/// Returns a view of x with a new shape, whose elements have the same row-major order. Returns
/// nullopt if the strides of x do not allow such a view, so that a copy is necessary. Both shapes
/// must have the same number of elements.
std::optional<Layout> reshaped(const Layout& x, const Shape& shape);

}  // namespace heed::autograd
