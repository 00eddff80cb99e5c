// cat and stack join tensors along an axis; split and chunk divide a tensor into views.
#include <algorithm>

#include "autograd/graph/graph.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

Samples cat_samples(SampleGen& g);
const Op kCat(
    {.name = "cat", .saves = Saves::kNothing, .samples = cat_samples, .no_sizes = needs_axis()});

// Returns the common dtype of xs: tracked64 if a tensor has it, else the dtype of all.
DType common_dtype(Args xs) {
  Tensor first = xs[0];
  for (Tensor x : xs) detail::unify(kCat, first, x);
  return first.dtype();
}

// Returns the shape of the joined tensors. Throws ShapeError unless their sizes on all other axes
// are equal.
Shape joined_shape(Args xs, int axis) {
  Shape shape = xs[0].shape();
  for (std::size_t k = 1; k < xs.size(); ++k) {
    Shape other = xs[k].shape();
    const bool same_rank = other.rank() == shape.rank();
    const Index size = same_rank ? other[axis] : 0;
    if (same_rank) other[axis] = shape[axis];
    check(other == shape, kCat, "tensors must have equal sizes on every axis except ", axis,
          ", got ", xs[0].shape(), " and ", xs[k].shape(), " (tensor ", k, ")");
    shape[axis] += size;
  }
  return shape;
}

}  // namespace

Tensor cat(std::span<const Tensor> xs, Index axis) {
  check<ValueError>(!xs.empty(), kCat, "needs at least one tensor");
  const int a = normalized_axis(kCat, xs[0].shape(), axis);
  const DType dtype = common_dtype(xs);
  Tensor y = empty(joined_shape(xs, a), dtype);
  std::vector<Index, PoolAllocator<Index>> starts{0};
  for (const Tensor& x : xs) {
    const Index end = starts.back() + x.shape()[a];
    detail::copy_into(detail::TensorAccess::view(y, sliced(y.layout(), a, starts.back(), end, 1)),
                      x.dtype() == dtype ? x : detail::lift(x));
    starts.push_back(end);
  }
  return record(kCat, xs, y, [starts, a](const Vjp& v) -> Grads {
    Grads grads(starts.size() - 1);
    for (std::size_t k = 0; k < grads.size(); ++k)
      if (v.needs(int(k))) grads[k] = slice(v.grad, a, starts[k], starts[k + 1]);
    return grads;
  });
}

Tensor cat(std::initializer_list<Tensor> xs, Index axis) {
  return cat(std::span(xs.begin(), xs.size()), axis);
}

Tensor stack(std::span<const Tensor> xs, Index axis) {
  check<ValueError>(!xs.empty(), "stack", "needs at least one tensor");
  const int a = normalized_new_axis("stack", xs[0].shape(), axis);
  std::vector<Tensor, PoolAllocator<Tensor>> rows;
  rows.reserve(xs.size());
  for (const Tensor& x : xs) {
    check(x.shape() == xs[0].shape(), "stack", "needs tensors of one shape, got ", xs[0].shape(),
          " and ", x.shape(), " (tensor ", rows.size(), ")");
    rows.push_back(unsqueeze(x, a));
  }
  return cat(rows, a);
}

Tensor stack(std::initializer_list<Tensor> xs, Index axis) {
  return stack(std::span(xs.begin(), xs.size()), axis);
}

std::vector<Tensor> split(const Tensor& x, Index size, Index axis) {
  check<ValueError>(size >= 1, "split", "needs a size >= 1, got ", size);
  const int a = normalized_axis("split", x.shape(), axis);
  const Index n = x.shape()[a];
  std::vector<Tensor> parts;
  for (Index start = 0; start < n; start += size)
    parts.push_back(slice(x, a, start, std::min(n, start + size)));
  if (parts.empty()) parts.push_back(x);  // an axis of size 0 gives one empty view
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, Index n, Index axis) {
  check<ValueError>(n >= 1, "chunk", "needs at least one chunk, got ", n);
  const Index length = x.shape()[normalized_axis("chunk", x.shape(), axis)];
  if (length == 0) return std::vector<Tensor>(std::size_t(n), x);  // n empty chunks, as in PyTorch
  return split(x, (length - 1) / n + 1, axis);
}

namespace {

Samples cat_samples(SampleGen& g) {
  const auto along = [](Index axis) { return [axis](Args t) { return cat(t, axis); }; };
  return {{"rows", along(0), {g.normal({2, 3}), g.normal({1, 3}), g.normal({3, 3})}},
          {"columns", along(-1), {g.normal({2, 1}), g.normal({2, 3})}},
          {"size 0", along(1), {g.normal({2, 0}), g.normal({2, 2})}},
          {"one", along(0), {g.normal({3})}},
          {"x with itself",
           [](Args t) {
             return cat({t[0], t[0] * t[0]}, 0);
           },
           {g.normal({2})}}};
}

const Check kStack("stack", [](SampleGen& g) -> Samples {
  const auto along = [](Index axis) { return [axis](Args t) { return stack(t, axis); }; };
  return {{"first axis", along(0), {g.normal({2, 3}), g.normal({2, 3})}},
          {"last axis", along(-1), {g.normal({2, 3}), g.normal({2, 3}), g.normal({2, 3})}},
          {"rank 0", along(0), {g.normal({}), g.normal({})}}};
});

const Check kSplit(
    "split",
    [](SampleGen& g) -> Samples {
      const auto f = [](Args t) {
        const std::vector<Tensor> parts = split(t[0], 2, 1);  // with 2, 2 and 1 columns
        return parts[0] * parts[parts.size() / 2] + parts.back();
      };
      return {{"uneven", f, {g.normal({3, 5})}}};
    },
    needs_axis());

const Check kChunk(
    "chunk",
    [](SampleGen& g) -> Samples {
      const auto f = [](Args t) {
        const std::vector<Tensor> parts = chunk(t[0], 3, -1);
        return parts[0] * parts[parts.size() / 2] - parts.back();
      };
      return {{"query, key, value", f, {g.normal({2, 6})}}};
    },
    needs_axis());

}  // namespace

}  // namespace heed::autograd
