// View ops. Each op creates a new Layout on the storage of x, if the strides of x allow it. The vjp
// of an op reverses the op.
#include <algorithm>

#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

// The elements that slice() has read from a tensor of shape `shape`: the indices start, start +
// step, ... of axis `axis`.
struct Place {
  Shape shape;
  int axis;
  Index start, step;
};
// Returns a tensor of zeros, except that the elements at `place` are those of x. unslice() is the
// vjp of slice(), and slice() is the vjp of unslice().
Tensor unslice(const Tensor& x, const Place& place);

Samples reshape_samples(SampleGen& g);
Samples permute_samples(SampleGen& g);
Samples expand_samples(SampleGen& g);
Samples slice_samples(SampleGen& g);
Samples unslice_samples(SampleGen& g);
Samples flip_samples(SampleGen& g);
Samples contiguous_samples(SampleGen& g);

const Op kReshape({.name = "reshape", .saves = Saves::kNothing, .samples = reshape_samples});
const Op kPermute({.name = "permute", .saves = Saves::kNothing, .samples = permute_samples});
const Op kExpand(
    {.name = "expand", .saves = Saves::kNothing, .broadcasts = true, .samples = expand_samples});
const Op kSlice({.name = "slice",
                 .saves = Saves::kNothing,
                 .samples = slice_samples,
                 .no_sizes = needs_axis()});
const Op kUnslice({.name = "unslice",
                   .saves = Saves::kNothing,
                   .samples = unslice_samples,
                   .no_sizes = needs_axis()});
const Op kFlip(
    {.name = "flip", .saves = Saves::kNothing, .samples = flip_samples, .no_sizes = needs_axis()});
const Op kContiguous({.name = "contiguous",
                      .saves = Saves::kNothing,
                      .samples = contiguous_samples});

// Creates and records a view. Every op that returns a view calls this function, directly or through
// another op.
template <class F>
Tensor record_view(const Op& op, const Tensor& x, const Layout& layout, F vjp) {
  return record(op, {x}, detail::TensorAccess::view(x, layout), std::move(vjp));
}

Tensor unslice(const Tensor& x, const Place& place) {
  Tensor y = zeros(place.shape, x.dtype());
  detail::copy_into(detail::TensorAccess::view(
                        y, sliced(y.layout(), place.axis, place.start,
                                  place.start + x.shape()[place.axis] * place.step, place.step)),
                    x);
  return record(kUnslice, {x}, y, [place, n = x.shape()[place.axis]](const Vjp& v) -> Grads {
    return {slice(v.grad, place.axis, place.start, place.start + n * place.step, place.step)};
  });
}

// Returns `shape`. If one size is -1, this size is computed from the others.
Shape resolved(const Tensor& x, const Shape& shape) {
  int unknown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    const Index size = shape.data()[i];
    check(size >= -1 && (size != -1 || unknown < 0), kReshape,
          "needs sizes >= 0 and at most one -1, got ", shape);
    if (size == -1) unknown = i;
  }
  const Index n = x.numel(),
              known = checked_numel(kReshape, unknown < 0 ? shape : shape.with(unknown, 1));
  const bool fits = unknown < 0 ? known == n : known > 0 && n % known == 0;
  check(fits, kReshape, "cannot turn ", x.shape(), " (", n, " elements) into ", shape,
        unknown < 0 ? "; needs as many elements" : "; the other sizes do not determine the -1");
  return unknown < 0 ? shape : shape.with(unknown, n / known);
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape to = resolved(x, shape);
  const auto layout = reshaped(x.layout(), to);
  if (!layout) return reshape(contiguous(x), to);
  return record_view(kReshape, x, *layout,
                     [from = x.shape()](const Vjp& v) -> Grads { return {reshape(v.grad, from)}; });
}

Tensor permute(const Tensor& x, const Dims& axes) {
  return record_view(kPermute, x, permuted(kPermute, x.layout(), axes),
                     [axes](const Vjp& v) -> Grads {
                       Dims inverse = axes;
                       for (int i = 0; i < axes.rank(); ++i)
                         inverse[normalized_axis(kPermute, axes, axes[i])] = i;
                       return {permute(v.grad, inverse)};
                     });
}

Tensor transpose(const Tensor& x, Index axis0, Index axis1) {
  const int a = normalized_axis("transpose", x.shape(), axis0),
            b = normalized_axis("transpose", x.shape(), axis1);
  Dims axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i == a ? b : i == b ? a : i);
  return permute(x, axes);
}

Tensor mT(const Tensor& x) {
  check(x.rank() >= 2, "mT", "needs rank >= 2, got ", x.shape());
  return transpose(x, -2, -1);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  Shape to = shape;
  const int lead = shape.rank() - x.rank();
  for (int i = std::max(0, lead); i < shape.rank(); ++i)
    if (to[i] == -1) to[i] = x.shape()[i - lead];
  checked_numel(kExpand, to);
  return record_view(kExpand, x, expanded(kExpand, x.layout(), to), [](const Vjp& v) -> Grads {
    return {v.grad};
  });  // the engine sums over the broadcast axes
}

Tensor squeeze(const Tensor& x, Index axis) {
  const int a = normalized_axis("squeeze", x.shape(), axis);
  check(x.shape()[a] == 1, "squeeze", "axis ", axis, " of ", x.shape(), " has size ", x.shape()[a],
        ", not 1");
  return reshape(x, x.shape().without(a));
}

Tensor unsqueeze(const Tensor& x, Index axis) {
  const int a = normalized_new_axis("unsqueeze", x.shape(), axis);
  return reshape(x, x.shape().sub(0, a).joined(1).joined(x.shape().sub(a, x.rank())));
}

Tensor flatten(const Tensor& x, Index first, Index last) {
  if (x.rank() == 0) return reshape(x, {1});
  const int a = normalized_axis("flatten", x.shape(), first),
            b = normalized_axis("flatten", x.shape(), last);
  check(a <= b, "flatten", "needs first <= last, got ", first, " and ", last);
  const Index merged = x.shape().sub(a, b + 1).numel();
  return reshape(x, x.shape().sub(0, a).joined(merged).joined(x.shape().sub(b + 1, x.rank())));
}

Tensor slice(const Tensor& x, Index axis, Index start, Index end, Index step) {
  check<ValueError>(step >= 1, kSlice, "needs step >= 1, got ", step, "; flip() reverses an axis");
  const int a = normalized_axis(kSlice, x.shape(), axis);
  const Index n = x.shape()[a];
  const auto bound = [n](Index i) { return std::clamp<Index>(i < 0 ? i + n : i, 0, n); };
  // A step of n selects the same elements as every larger step. Unlike a larger step, it cannot
  // overflow.
  const Place place{x.shape(), a, bound(start), std::clamp<Index>(n, 1, step)};
  return record_view(kSlice, x, sliced(x.layout(), a, place.start, bound(end), place.step),
                     [place](const Vjp& v) -> Grads { return {unslice(v.grad, place)}; });
}

Tensor select(const Tensor& x, Index axis, Index index) {
  const int a = normalized_axis("select", x.shape(), axis);
  const Index n = x.shape()[a];
  check<ValueError>(index >= -n && index < n, "select", "index ", index,
                    " is out of range for axis ", axis, " of ", x.shape());
  const Index i = index < 0 ? index + n : index;
  return squeeze(slice(x, a, i, i + 1), a);
}

Tensor flip(const Tensor& x, Index axis) {
  const int a = normalized_axis(kFlip, x.shape(), axis);
  Layout layout = x.layout();
  if (layout.shape[a] > 0) layout.offset += (layout.shape[a] - 1) * layout.strides[a];
  layout.strides[a] = -layout.strides[a];
  return record_view(kFlip, x, layout, [a](const Vjp& v) -> Grads { return {flip(v.grad, a)}; });
}

Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor y = detached_copy(x);
  if (!is_floating(x.dtype())) return y;
  return record(kContiguous, {x}, y, [](const Vjp& v) -> Grads { return {v.grad}; });
}

namespace {

template <class F>
Samples samples_of_view(SampleGen& g, F f) {
  const auto one = [f](Args t) { return f(t[0]); };
  // A view is linear, so its second derivative is 0. The square makes the second derivative of f
  // different from 0.
  const auto squared = [f](Args t) { return f(t[0] * t[0]); };
  return {{"of a leaf", one, {g.normal({2, 3, 4})}},
          {"of a product", squared, {g.normal({2, 3, 4})}}};
}

Samples reshape_samples(SampleGen& g) {
  Samples samples = samples_of_view(g, [](const Tensor& x) { return reshape(x, {4, -1}); });
  samples.push_back({"rank 0", [](Args t) { return reshape(t[0], {1, 1}); }, {g.normal({})}});
  return samples;
}

Samples permute_samples(SampleGen& g) {
  Samples samples = samples_of_view(g, [](const Tensor& x) { return permute(x, {2, 0, 1}); });
  samples.push_back({"rank 0", [](Args t) { return permute(t[0], {}); }, {g.normal({})}});
  return samples;
}

Samples expand_samples(SampleGen& g) {
  const auto to = [](const Shape& shape) {
    return [shape](Args t) { return expand(t[0], shape); };
  };
  return {{"new and size-1 axes", to({2, 3, 4}), {g.normal({3, 1})}},
          {"scalar", to({2, 2}), {g.normal({})}},
          {"to size 0", to({0, 3}), {g.normal({1, 3})}},
          {"of size 0", to({0, 3}), {g.normal({0, 1})}},
          {"large", to({67, 2}), {g.normal({67, 1})}}};
}

Samples slice_samples(SampleGen& g) {
  return samples_of_view(g, [](const Tensor& x) { return slice(x, 1, 0, 3, 2); });
}

Samples unslice_samples(SampleGen& g) {
  const auto f = [](Args t) {
    return unslice(t[0], {{t[0].size(0), 1 + 2 * t[0].size(1)}, 1, 1, 2});
  };
  return {{"every other column", f, {g.normal({3, 3})}}};
}

Samples flip_samples(SampleGen& g) {
  return samples_of_view(g, [](const Tensor& x) { return flip(x, -1); });
}

Samples contiguous_samples(SampleGen& g) {
  Samples samples = samples_of_view(g, [](const Tensor& x) { return contiguous(mT(x)); });
  samples.push_back({"rank 0", [](Args t) { return contiguous(t[0]); }, {g.normal({})}});
  return samples;
}

Samples squeeze_samples(SampleGen& g) {
  Samples samples = samples_of_view(g, [](const Tensor& x) {
    return squeeze(reshape(x, {2, 1, 12}), 1);
  });
  samples.push_back({"size 0", [](Args t) { return squeeze(t[0], 1); }, {g.normal({0, 1})}});
  samples.push_back({"large", [](Args t) { return squeeze(t[0], 0); }, {g.normal({1, 67})}});
  return samples;
}

template <class F>
SampleFn view_samples(F f) {
  return [f](SampleGen& g) { return samples_of_view(g, f); };
}

const Check kTranspose("transpose",
                       view_samples([](const Tensor& x) { return transpose(x, 0, -1); }),
                       needs_axis());
const Check kSqueeze("squeeze", squeeze_samples, needs_axis());
const Check kMT("mT", view_samples([](const Tensor& x) { return mT(x); }), needs_axis());
const Check kUnsqueeze("unsqueeze", view_samples([](const Tensor& x) { return unsqueeze(x, -1); }));
const Check kFlatten("flatten", view_samples([](const Tensor& x) { return flatten(x, 1); }));
const Check kSelect("select", view_samples([](const Tensor& x) { return select(x, 1, -2); }),
                    needs_axis());

}  // namespace

}  // namespace heed::autograd
