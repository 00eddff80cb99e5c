#include "autograd/check/array_layout.h"

namespace heed::autograd {
namespace {

// Returns the last axis that is longer than 1, or -1 if there is none.
int last_long_axis(const Shape& shape) {
  int axis = shape.rank() - 1;
  while (axis >= 0 && shape[axis] <= 1) --axis;
  return axis;
}

// Returns the layout in a buffer without unused elements at its ends.
Layout densest(const Shape& shape, ArrayLayout layout) {
  const int axis = last_long_axis(shape);
  if (layout == ArrayLayout::kTransposed) {
    Dims reversed, axes;
    for (int i = shape.rank() - 1; i >= 0; --i) reversed.push_back(shape[i]), axes.push_back(i);
    return permuted("transposed", Layout::contiguous(reversed), axes);
  }
  if (layout == ArrayLayout::kZeroStrides) return {shape, Dims::filled(shape.rank(), 0), 0};
  if (layout == ArrayLayout::kEverySecond && axis >= 0) {
    const Index doubled = 2 * shape[axis];
    return sliced(Layout::contiguous(shape.with(axis, doubled)), axis, 0, doubled, 2);
  }
  Layout l = Layout::contiguous(shape);
  if (layout == ArrayLayout::kNegative && axis >= 0) {
    l.offset = (shape[axis] - 1) * l.strides[axis];
    l.strides[axis] = -l.strides[axis];
  }
  return l;
}

}  // namespace

Placement place(const Shape& shape, ArrayLayout layout, Index gap) {
  Layout elements = densest(shape, layout);
  elements.offset += gap;
  const Index used = shape.numel() * (layout == ArrayLayout::kEverySecond ? 2 : 1);
  return {elements, used + 2 * gap};
}

bool applies(ArrayLayout layout, const Shape& shape) {
  if (layout == ArrayLayout::kContiguous || layout == ArrayLayout::kOffset ||
      layout == ArrayLayout::kMissing)
    return shape.numel() > 0;
  return !densest(shape, layout).is_contiguous();
}

}  // namespace heed::autograd
