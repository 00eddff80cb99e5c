// layer_norm and rms_norm over the last axis. rms_norm is layer_norm without the subtraction of the
// mean and without a bias, so they share their loops over rows.
#include <algorithm>
#include <array>

#include "autograd/base/parallel.h"
#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

using kernels::Accumulator;

Samples layer_norm_samples(SampleGen& g);
Samples rms_norm_samples(SampleGen& g);
const Op kLayerNorm({.name = "layer_norm",
                     .saves = Saves::kInputs,
                     .samples = layer_norm_samples,
                     .no_sizes = needs_axis()});

const Op kRmsNorm({.name = "rms_norm",
                   .saves = Saves::kInputs,
                   .samples = rms_norm_samples,
                   .no_sizes = needs_axis()});

// Returns true for layer_norm, which subtracts the mean.
bool is_centered(const Op& op) { return &op == &kLayerNorm; }

// A tensor [..., D] as rows of D adjacent values. The gradients of weight and bias are first summed
// over blocks of kBlock rows, in the type of x. Such short sums have a small error, and the sums of
// all blocks need less memory than the rows. `grain` is the number of rows in a parallel chunk.
struct Rows {
  static constexpr Index kBlock = 32;
  Index count, size, grain;

  explicit Rows(const Shape& shape)
      : count(shape.without(-1).numel()),
        size(shape.back()),
        grain(kBlock * std::max<Index>(1, kGrain / (2 * kBlock * (size + 16)))) {}
  Index blocks() const { return (count + kBlock - 1) / kBlock; }
};

void check_arguments(const Op& op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     double eps) {
  check(x.rank() >= 1, op, "needs x [..., D], got a scalar []");
  const Shape size{x.size(-1)};
  check(!weight.defined() || weight.shape() == size, op, "needs x [..., D] and weight [D], got ",
        x.shape(), " and ", weight.defined() ? weight.shape() : size);
  check(!bias.defined() || bias.shape() == size, op, "needs x [..., D] and bias [D], got ",
        x.shape(), " and ", bias.defined() ? bias.shape() : size);
  check<ValueError>(eps >= 0, op, "needs eps >= 0, got ", eps);
}

template <class T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

struct Normalized {
  Tensor y;
  Tensor moments;  // [rows, 2]: mean and 1 / standard deviation, in the accumulator type
};

Normalized forward(const Op& op, Tensor x, Tensor weight, Tensor bias, double eps) {
  check_arguments(op, x, weight, bias, eps);
  const DType dtype = detail::unify(op, x, weight, bias);
  for (Tensor* operand : {&x, &weight, &bias}) *operand = detail::row_major(std::move(*operand));
  const Rows rows(x.shape());
  Normalized result{empty(x.shape(), dtype), {}};
  dispatch_floating(dtype, op, [&]<class T> {
    using Acc = Accumulator<T>;
    result.moments = empty({rows.count, 2}, kDTypeOf<Acc>);
    const T *in = x.data<T>(), *w = data_or_null<T>(weight), *b = data_or_null<T>(bias);
    T* y = result.y.template mutable_data<T>();
    Acc* moments = result.moments.template mutable_data<Acc>();
    parallel_for(rows.count, rows.grain, [&](Index begin, Index end) {
      const T* from = in + begin * rows.size;
      Acc* m = moments + 2 * begin;
      kernels::norm_moments(m, from, end - begin, rows.size, eps, is_centered(op));
      kernels::normalize(y + begin * rows.size, from, m, w, b, end - begin, rows.size);
    });
  });
  return result;
}

// Sets out[c] to the sum of column c over `rows` rows, which are `width` values apart. Row r is
// added to sum r % 4 of four sums. If the last group has fewer than four rows, its rows are added
// to the first sum.
template <class T>
void sum_columns_in_order(T* out, const T* x, Index rows, Index width, Index columns) {
  using Acc = kernels::Accumulator<T>;
  const Index fours = rows / 4;
  std::array<std::array<Acc, kernels::kColumnBlock>, 4> sums;
  for (Index c = 0; c < columns; c += kernels::kColumnBlock) {
    const Index n = std::min(kernels::kColumnBlock, columns - c);
    for (std::size_t i = 0; i < 4; ++i) {
      sums[i].fill(Acc{});
      kernels::add_columns(sums[i].data(), x + Index(i) * width + c, fours, 4 * width, n);
    }
    kernels::add_columns(sums[0].data(), x + 4 * fours * width + c, rows - 4 * fours, width, n);
    for (std::size_t i = 0; i < std::size_t(n); ++i)
      out[c + Index(i)] = T((sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]));
  }
}

// Returns the gradients of x, weight and (for layer_norm) bias.
Grads backward(const Op& op, const Vjp& v, const Tensor& moments) {
  const Tensor g = contiguous(v.grad), x = contiguous(v.input(0));
  const Tensor weight = detail::row_major(v.input(1));
  const bool needs_x = v.needs(0), needs_weight = v.needs(1);
  const bool needs_bias = is_centered(op) && v.needs(2);
  const Rows rows(x.shape());
  const Index size = rows.size;
  Grads grads(is_centered(op) ? 3 : 2);
  dispatch_floating(x.dtype(), op, [&]<class T> {
    using Acc = Accumulator<T>;
    const T *pg = g.data<T>(), *px = x.data<T>(), *w = data_or_null<T>(weight);
    const Acc* pm = moments.data<Acc>();
    if (needs_x) grads[0] = empty_like(x);
    T* dx = needs_x ? grads[0].template mutable_data<T>() : nullptr;
    // [dweight, dbias] of each block
    const Index width = needs_weight || needs_bias ? 2 * size : 0;
    std::vector<T, PoolAllocator<T>> sums(std::size_t(std::max<Index>(1, rows.blocks()) * width));
    parallel_for(rows.count, rows.grain, [&](Index begin, Index end) {
      for (Index r = begin; r < end; r += Rows::kBlock) {
        T* partial = sums.data() + r / Rows::kBlock * width;
        const kernels::NormGrads<T> to{dx ? dx + r * size : nullptr, width ? partial : nullptr,
                                       partial + (width ? size : 0)};
        kernels::normalize_backward(to, pg + r * size, px + r * size, pm + 2 * r, w,
                                    std::min(Rows::kBlock, end - r), size, is_centered(op));
      }
    });
    // The sums of the blocks are added in order, so the result does not depend on the number of
    // threads.
    const auto gradient = [&](Index first) {
      Tensor d = empty({size}, x.dtype());
      sum_columns_in_order(d.template mutable_data<T>(), sums.data() + first, rows.blocks(), width,
                           size);
      return d;
    };
    if (needs_weight) grads[1] = gradient(0);
    if (needs_bias) grads[2] = gradient(size);
  });
  return grads;
}

// Computes the norm of t[0] from public ops, with t[1] as the weight and `bias`. An undefined
// weight or bias is omitted. In float32 the squares could overflow or become 0, and the mean would
// be rounded, so float32 is converted to float64.
Tensor definition(Args t, const Tensor& bias, double eps, bool centered) {
  const Tensor wide = to(t[0], float64), &weight = t[1];
  const Tensor d = centered ? wide - mean(wide, {-1}, true) : wide;
  Tensor u = to(d * rsqrt(mean(d * d, {-1}, true) + eps), t[0].dtype());
  if (weight.defined()) u = u * weight;
  return bias.defined() ? u + bias : u;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Normalized result = forward(kLayerNorm, x, weight, bias, eps);
  return record(
      kLayerNorm, {x, weight, bias}, std::move(result.y),
      [eps](Args t) { return definition(t, t[2], eps, true); },
      [moments = std::move(result.moments)](const Vjp& v) {
        return backward(kLayerNorm, v, moments);
      });
}

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const int lead = x.rank() - normalized_shape.rank();
  check(normalized_shape.rank() >= 1 && lead >= 0 &&
            x.shape().sub(std::max(0, lead), x.rank()) == normalized_shape,
        kLayerNorm,
        "needs a normalized_shape that equals the last sizes of x, at least one, got x ", x.shape(),
        " and normalized_shape ", normalized_shape);
  for (const Tensor* p : {&weight, &bias})
    check(!p->defined() || p->shape() == normalized_shape, kLayerNorm,
          "needs weight and bias of normalized_shape ", normalized_shape, ", got ",
          p->defined() ? p->shape() : normalized_shape);
  if (normalized_shape.rank() == 1) return layer_norm(x, weight, bias, eps);
  const auto flat = [](const Tensor& p) { return p.defined() ? reshape(p, {-1}) : p; };
  const Shape rows = x.shape().sub(0, lead).joined(normalized_shape.numel());
  return reshape(layer_norm(reshape(x, rows), flat(weight), flat(bias), eps), x.shape());
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  Normalized result = forward(kRmsNorm, x, weight, {}, eps);
  return record(
      kRmsNorm, {x, weight}, std::move(result.y),
      [eps](Args t) { return definition(t, {}, eps, false); },
      [moments = std::move(result.moments)](const Vjp& v) {
        return backward(kRmsNorm, v, moments);
      });
}

namespace {

// Returns widely spread values, because finite differences are inaccurate where the variance is
// close to 0.
Tensor wide(SampleGen& g, const Shape& shape) { return g.uniform(shape, -8, 8); }

Samples layer_norm_samples(SampleGen& g) {
  const auto all = [](Args t) { return layer_norm(t[0], t[1], t[2]); };
  return {{"weight and bias", all, {wide(g, {3, 4}), g.normal({4}), g.normal({4})}},
          {"rank 3", all, {wide(g, {2, 2, 3}), g.normal({3}), g.normal({3})}},
          {"rank 1", all, {wide(g, {5}), g.normal({5}), g.normal({5})}},
          {"no bias",
           [](Args t) { return layer_norm(t[0], t[1], {}); },
           {wide(g, {2, 4}), g.normal({4})}},
          {"no weight",
           [](Args t) { return layer_norm(t[0], {4}, {}, t[1]); },
           {wide(g, {2, 4}), g.normal({4})}},
          {"neither, large eps",
           [](Args t) { return layer_norm(t[0], {}, {}, 2); },
           {g.normal({2, 3})}},
          {"D = 1",
           [](Args t) { return layer_norm(t[0], t[1], t[2], 2); },
           {g.normal({3, 1}), g.normal({1}), g.normal({1})}},
          {"two axes",
           [](Args t) {
             return layer_norm(t[0], {2, 3}, t[1], t[2]);
           },
           {wide(g, {2, 2, 3}), g.normal({2, 3}), g.normal({2, 3})}},
          {"no rows", all, {g.normal({0, 3}), g.normal({3}), g.normal({3})}}};
}

Samples rms_norm_samples(SampleGen& g) {
  const auto all = [](Args t) { return rms_norm(t[0], t[1]); };
  return {
      {"weight", all, {wide(g, {3, 4}), g.normal({4})}},
      {"rank 3", all, {wide(g, {2, 2, 3}), g.normal({3})}},
      {"rank 1", all, {wide(g, {5}), g.normal({5})}},
      {"no weight, large eps", [](Args t) { return rms_norm(t[0], {}, 2); }, {g.normal({2, 3})}},
      {"D = 1", [](Args t) { return rms_norm(t[0], t[1], 2); }, {g.normal({3, 1}), g.normal({1})}},
      {"no rows", all, {g.normal({0, 3}), g.normal({3})}}};
}

}  // namespace

}  // namespace heed::autograd
