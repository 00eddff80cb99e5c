// Memory layouts in which a check passes arrays to foreign code.
#pragma once

#include "autograd/base/shape.h"

namespace heed::autograd {

/// Memory layout of an array. The value k of a layout other than kContiguous stands for the bit
/// 2^(k - 1) of heed_problem::layouts (heed_check.h).
enum class ArrayLayout {
  kContiguous,   ///< contiguous, in row-major order
  kOffset,       ///< contiguous, inside a larger array
  kTransposed,   ///< axes in reversed order in memory
  kEverySecond,  ///< every second element along the last axis that is longer than 1
  kNegative,     ///< the last axis that is longer than 1, reversed in memory
  kZeroStrides,  ///< one element for all indices
  kMissing,      ///< no memory: a gradient of an output that counts as zeros
};

/// One array of a call, and its layout. The other arrays of the call are contiguous.
struct PlacedArray {
  ArrayLayout layout = ArrayLayout::kContiguous;  ///< layout of the array
  bool is_gradient = false;  ///< true for the gradient of an output, false for an input
  std::size_t index = 0;     ///< index of that output or input
};

/// Positions of an array's elements in a buffer that has more elements.
struct Placement {
  Layout elements;  ///< positions of the elements
  Index size = 0;   ///< size of the buffer
};
/// Returns the placement of an array in `layout`, with `gap` unused elements before and after it.
Placement place(const Shape& shape, ArrayLayout layout, Index gap);

/// Returns true if an array of this shape can be passed in `layout` and is then not contiguous. For
/// example, an array with one axis cannot be transposed. For kContiguous, kOffset and kMissing,
/// returns true if the array has elements.
bool applies(ArrayLayout layout, const Shape& shape);

}  // namespace heed::autograd
