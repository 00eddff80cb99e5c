#include "autograd/base/shape.h"

#include <algorithm>
#include <ostream>

namespace heed::autograd {

Dims::Dims(const std::vector<int>& dims) : Dims(std::vector<Index>(dims.begin(), dims.end())) {}

Dims Dims::filled(int rank, Index value) {
  Dims d;
  for (int i = 0; i < rank; ++i) d.push_back(value);
  return d;
}

std::size_t Dims::position_from_back(int i) const {
  return std::size_t(normalized_axis("shape", *this, i));
}

void Dims::fail_rank(std::size_t rank) { fail("shape", "needs rank 0 to 8, got rank ", rank); }

void append_text(std::string& out, const Dims& dims) {
  out += '[';
  for (int i = 0; i < dims.rank(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(dims[i]);
  }
  out += ']';
}

std::string to_text(const Dims& dims) {
  std::string text;
  append_text(text, dims);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_text(dims); }

Dims unravel(Index flat, const Shape& shape) {
  Dims index = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

int Layout::repeated_axis() const {
  for (int i = 0; i < shape.rank(); ++i)
    if (strides[i] == 0 && shape[i] > 1) return shape.numel() == 0 ? -1 : i;
  return -1;
}

Index Layout::offset_of(const Dims& index) const {
  Index sum = 0;
  for (int i = 0; i < index.rank(); ++i) sum += index[i] * strides[i];
  return sum;
}

void detail::fail_axis(std::string_view op, const Shape& shape, Index axis) {
  check(shape.rank() > 0, op, "axis ", axis, " is out of range: a tensor of rank 0 has no axes");
  fail(op, "axis ", axis, " is out of range for shape ", shape, "; needs at least ", -shape.rank(),
       " and below ", shape.rank());
}

int normalized_new_axis(std::string_view op, const Shape& shape, Index axis) {
  const Index rank = shape.rank();
  check(axis >= -rank - 1 && axis <= rank, op, "axis ", axis, " is out of range for a new axis of ",
        shape, "; needs ", -rank - 1, " to ", rank);
  return int(axis < 0 ? axis + rank + 1 : axis);
}

Shape broadcast(std::string_view op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Dims::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const Index x = i <= a.rank() ? a[a.rank() - i] : 1;
    const Index y = i <= b.rank() ? b[b.rank() - i] : 1;
    check(x == y || x == 1 || y == 1, op, "shapes ", a, " and ", b, " do not broadcast: ", x,
          " against ", y, " in axis ", -i);
    out[rank - i] = x == 1 ? y : x;
  }
  return out;
}

Index checked_numel(std::string_view op, const Shape& shape) {
  Index n = 1;
  for (const Index d : shape) {
    check(d >= 0, op, "sizes must be >= 0, got ", shape);
    // Unlike an int64, a double cannot overflow here, and it is exact up to 2^53.
    check(double(n) * double(d) <= 0x1p40, op, "shape ", shape, " has more than 2^40 elements");
    n *= d;
  }
  return n;
}

Layout permuted(std::string_view op, const Layout& x, const Dims& axes) {
  const int rank = x.shape.rank();
  check(axes.rank() == rank, op, "needs ", rank, " axes for shape ", x.shape, ", got ", axes);
  Layout out = x;
  unsigned seen = 0;
  for (int i = 0; i < rank; ++i) {
    const int from = normalized_axis(op, x.shape, axes[i]);
    check(!(seen & (1u << from)), op, "axis ", from, " appears twice in ", axes, " for shape ",
          x.shape);
    seen |= 1u << from;
    out.shape[i] = x.shape[from];
    out.strides[i] = x.strides[from];
  }
  return out;
}

Layout expanded(std::string_view op, const Layout& x, const Shape& shape) {
  const int lead = shape.rank() - x.shape.rank();
  check(lead >= 0, op, "cannot expand ", x.shape, " to the lower rank of ", shape);
  Layout out{shape, Dims::filled(shape.rank(), 0), x.offset};
  for (int i = 0; i < x.shape.rank(); ++i) {
    const Index from = x.shape[i], to = shape[lead + i];
    check(from == to || from == 1, op, "cannot expand ", x.shape, " to ", shape, ": axis ", i,
          " has size ", from, ", only size 1 expands");
    out.strides[lead + i] = from == to ? x.strides[i] : 0;
  }
  return out;
}

Layout sliced(const Layout& x, int axis, Index start, Index end, Index step) {
  Layout out = x;
  out.shape[axis] = end <= start ? 0 : (end - start + step - 1) / step;
  if (out.shape[axis] > 0) out.offset += start * x.strides[axis];
  out.strides[axis] = x.strides[axis] * step;
  return out;
}

std::optional<Layout> reshaped(const Layout& x, const Shape& shape) {
  if (x.is_contiguous()) {
    Layout out = Layout::contiguous(shape);
    out.offset = x.offset;
    return out;
  }
  // Splits both shapes, from the front, into groups of axes with equal numbers of elements. A group
  // can be a view if its old axes are contiguous among themselves: the stride of each axis is the
  // stride times the size of the next axis.
  Layout out{shape, shape, x.offset};
  int i = 0, j = 0;
  const int old_rank = x.shape.rank(), new_rank = shape.rank();
  if (shape.numel() == 0) return Layout{shape, Layout::contiguous(shape).strides, x.offset};
  while (i < old_rank || j < new_rank) {
    int i_end = i, j_end = j;
    Index n = i_end < old_rank ? x.shape[i_end++] : 1;
    Index m = j_end < new_rank ? shape[j_end++] : 1;
    while (n != m) {
      if (n < m)
        n *= x.shape[i_end++];
      else
        m *= shape[j_end++];
    }
    // The stride of an axis of size 1 has no effect, so such axes are skipped.
    Index inner = 1, run = 1;
    bool first = true;
    for (int a = i_end - 1; a >= i; --a) {
      if (x.shape[a] == 1) continue;
      if (first)
        inner = x.strides[a], run = inner * x.shape[a], first = false;
      else if (x.strides[a] != run)
        return std::nullopt;
      else
        run *= x.shape[a];
    }
    for (int b = j_end - 1; b >= j; --b) {
      out.strides[b] = inner;
      inner *= shape[b];
    }
    i = i_end;
    j = j_end;
  }
  return out;
}

}  // namespace heed::autograd
