// Makes the layouts inside the sample's function. The checker evaluates the function at many
// points, and the leaves at a new point are new row-major tensors. Therefore the leaves stay
// row-major, and the op receives views of them in the requested layout.
#include "autograd/check/layouts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using Tensors = std::vector<Tensor>;

// Returns a sample whose inputs are `leaves`. Its function is f(image(0, leaves), image(1, leaves),
// ...), where f is the function of s and image(i, leaves) is input i of f.
SampleInLayout through_images(const Sample& s, Tensors leaves,
                              const std::function<Tensor(std::size_t, Args)>& image) {
  const auto f = [f = s.f, image, n = s.inputs.size()](Args t) {
    Tensors images;
    for (std::size_t i = 0; i < n; ++i) images.push_back(image(i, t));
    return f(images);
  };
  return {Sample{s.name, f, std::move(leaves), s.no_repeats}};
}

bool any_input(const Sample& s, bool (*fits)(const Tensor&)) {
  return std::any_of(s.inputs.begin(), s.inputs.end(), fits);
}

Tensor with_axes_reversed(const Tensor& x) {
  Dims reversed;
  for (int i = x.rank() - 1; i >= 0; --i) reversed.push_back(i);
  return permute(x, reversed);
}

SampleInLayout contiguous_layout(const Sample& s) { return {s}; }

SampleInLayout transposed_layout(const Sample& s) {
  if (!any_input(s, [](const Tensor& x) { return x.numel() > 0 && x.rank() >= 2; }))
    return {{}, SkipReason::kNothingToTranspose};
  Tensors leaves;
  for (const Tensor& x : s.inputs) leaves.push_back(contiguous(with_axes_reversed(x)));
  return through_images(s, leaves, [](std::size_t i, Args t) { return with_axes_reversed(t[i]); });
}

// Interleaves the inputs with NaN along each axis, then slices the inputs out again.
SampleInLayout sliced_layout(const Sample& s) {
  if (!any_input(s, [](const Tensor& x) { return x.numel() > 0 && x.rank() >= 1; }))
    return {{}, SkipReason::kNothingToSlice};
  return through_images(s, s.inputs, [](std::size_t i, Args t) {
    Tensor x = t[i];
    for (int a = 0; a < x.rank(); ++a) {
      const Tensor gap = full_like(x.detach(), std::nan(""));
      Shape doubled = x.shape();
      doubled[a] *= 2;
      x = slice(reshape(stack({gap, x}, a + 1), doubled), a, 1, doubled[a], 2);
    }
    return x;
  });
}

bool can_expand(const Tensor& x) { return x.rank() >= 1 && x.numel() > 0 && x.size(-1) > 1; }

SampleInLayout expanded_layout(const Sample& s) {
  if (!any_input(s, can_expand)) return {{}, SkipReason::kNothingToExpand};
  Tensors leaves;
  std::vector<Shape> shapes;
  for (const Tensor& x : s.inputs) {
    leaves.push_back(can_expand(x) ? contiguous(slice(x, -1, 0, 1)) : x);
    shapes.push_back(x.shape());
  }
  return through_images(s, leaves,
                        [shapes](std::size_t i, Args t) { return expand(t[i], shapes[i]); });
}

// Passes the last input, which becomes leaf 0, in place of every input of the same shape.
SampleInLayout aliased_layout(const Sample& s) {
  const auto same = [&](const Tensor& x) { return x.shape() == s.inputs.back().shape(); };
  if (std::count_if(s.inputs.begin(), s.inputs.end(), same) < 2)
    return {{}, SkipReason::kNothingToAlias};
  Tensors leaves{s.inputs.back()};
  std::vector<std::size_t> source;
  for (const Tensor& x : s.inputs) {
    source.push_back(same(x) ? 0 : leaves.size());
    if (!same(x)) leaves.push_back(x);
  }
  return through_images(s, leaves, [source](std::size_t i, Args t) { return t[source[i]]; });
}

struct Row {
  std::string_view name;
  bool repeats;  // true if several entries are one element of memory
  SampleInLayout (*make)(const Sample&);
};
// Rows in the order of CheckLayout.
constexpr Row kTable[] = {{"contiguous", false, contiguous_layout},
                          {"transposed", false, transposed_layout},
                          {"sliced", false, sliced_layout},
                          {"stride 0", true, expanded_layout},
                          {"aliased", true, aliased_layout}};

}  // namespace

std::string_view layout_name(CheckLayout layout) { return kTable[int(layout)].name; }

SampleInLayout with_layout(const Sample& sample, CheckLayout layout) {
  const NoGrad guard;
  const Row& row = kTable[int(layout)];
  SampleInLayout laid_out = row.make(sample);
  if (row.repeats && laid_out.sample && sample.no_repeats != SkipReason::kNone)
    return {{}, sample.no_repeats};
  return laid_out;
}

}  // namespace heed::autograd
