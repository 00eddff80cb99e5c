// Reductions over sets of axes: sum, mean, var, max, min, any, all, argmax, logsumexp and sum_to.
#include <cmath>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

using kernels::Accumulator;
using kernels::kColumnBlock;

// Returns samples of a reduction f(x, axes, keepdim).
template <class F>
SampleFn reduction_samples(F f, Tensor (SampleGen::*draw)(const Shape&),
                           SkipReason no_repeats = SkipReason::kNone);
constexpr auto kNormal = &SampleGen::normal, kApart = &SampleGen::apart;
constexpr SkipReason kTies = SkipReason::kEqualElements;
using Reduction = Tensor(const Tensor&, const Dims&, bool);

const Op kSum({.name = "sum",
               .saves = Saves::kNothing,
               .samples = reduction_samples(static_cast<Reduction*>(sum), kNormal)});
const Op kMean({.name = "mean",
                .saves = Saves::kNothing,
                .samples = reduction_samples(static_cast<Reduction*>(mean), kNormal)});
const Op kMax({.name = "max",
               .saves = Saves::kBoth,
               .samples = reduction_samples(static_cast<Reduction*>(max), kApart, kTies)});
const Op kLogsumexp({.name = "logsumexp",
                     .saves = Saves::kBoth,
                     .samples = reduction_samples(static_cast<Reduction*>(logsumexp), kNormal)});

// The axes of a tensor, divided into kept axes and reduced axes. with_ones is the shape of the
// result if keepdim is true.
struct Split {
  Shape kept, reduced, with_ones;
  Strides kept_strides, reduced_strides;

  Split(std::string_view op, const Tensor& x, const Dims& axes) {
    unsigned mask = axes.rank() == 0 ? ~0u : 0u;
    for (const Index a : axes) {
      const int axis = normalized_axis(op, x.shape(), a);
      check(!(mask & (1u << axis)), op, "axis ", axis, " appears twice in ", axes, " for shape ",
            x.shape());
      mask |= 1u << axis;
    }
    for (int i = 0; i < x.rank(); ++i) {
      const bool reduce = mask & (1u << i);
      (reduce ? reduced : kept).push_back(x.shape()[i]);
      (reduce ? reduced_strides : kept_strides).push_back(x.strides()[i]);
      with_ones.push_back(reduce ? 1 : x.shape()[i]);
    }
  }
};

// Calls f(o, address of the first element to reduce) for each output element, in parallel. o is the
// index of the output element in the row-major order of split.kept.
template <class T, class G>
void for_each_kept(const Split& split, const Tensor& x, Index work, G f) {
  const Strides dense = Layout::contiguous(split.kept).strides;
  const T* in = x.data<T>();
  const StridedLoop<2> loop(split.kept, {&dense, &split.kept_strides});
  const Index grain = std::max<Index>(1, kGrain / std::max<Index>(1, work));
  parallel_for(split.kept.numel(), grain, [&](Index begin, Index end) {
    for (Index i = begin; i < end;) {
      const Index run = i / loop.inner(), from = i % loop.inner();
      const Index to = std::min(loop.inner(), from + end - i);
      loop.run(
          [&](const auto& at, Index, const auto& s) {
            for (Index j = from; j < to; ++j) f(at[0] + j * s[0], in + at[1] + j * s[1]);
          },
          run, run + 1);
      i += to - from;
    }
  });
}

// Sums many rows of at most kWide columns. The rows are divided into at most 16 parts of at least
// kPart rows (the last part may be smaller), which are summed in parallel. The sums of the parts
// are then added in order.
constexpr Index kPart = 32, kWide = 4096;
template <class T, class Sum>
void sum_rows_in_parts(const T* x, const StridedLoop<1>& rows, Index columns, Sum* out,
                       Accumulator<T> factor) {
  using Acc = Accumulator<T>;
  const Index n = rows.inner(), part = std::max(kPart, (n + 15) / 16);
  const Index parts = (n + part - 1) / part;
  std::vector<Acc, PoolAllocator<Acc>> sums(std::size_t(parts * columns));
  rows.run([&](const auto&, Index, const auto& s) {
    parallel_for(parts, 1, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i)
        for (Index c = 0; c < columns; c += kColumnBlock)
          kernels::add_columns(sums.data() + i * columns + c, x + i * part * s[0] + c,
                               std::min(part, n - i * part), s[0],
                               std::min(kColumnBlock, columns - c));
    });
  });
  for (Index i = 1; i < parts; ++i)
    kernels::add_into(sums.data(), sums.data() + i * columns, columns);
  for (Index c = 0; c < columns; ++c) out[c] = Sum(sums[std::size_t(c)] * factor);
}

// Sums rows of adjacent elements into adjacent outputs. This function is used if the last kept axis
// has stride 1, because a loop over one output at a time would then read memory in large steps.
template <class T, class Sum>
void sum_columns(const Split& split, const Tensor& x, Sum* out, Accumulator<T> factor) {
  const Index columns = split.kept.back();
  const Index blocks = (columns + kColumnBlock - 1) / kColumnBlock;
  const Layout outer{split.kept.without(-1), split.kept_strides.without(-1)};
  const Index runs = outer.shape.numel();
  const StridedLoop<1> rows(split.reduced, {&split.reduced_strides});
  const T* in = x.data<T>();
  if (runs == 1 && rows.outer() == 1 && columns <= kWide && rows.inner() >= 2 * kPart)
    return sum_rows_in_parts(in, rows, columns, out, factor);
  const Index work = split.reduced.numel() * kColumnBlock;
  parallel_for(runs * blocks, std::max<Index>(1, kGrain / (work + 1)), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index o = i / blocks, first = i % blocks * kColumnBlock;
      const Index n = std::min(kColumnBlock, columns - first);
      const Index base = first + outer.offset_of(unravel(o, outer.shape));
      std::array<Accumulator<T>, kColumnBlock> acc{};
      rows.run([&](const auto& at, Index count, const auto& s) {
        kernels::add_columns(acc.data(), in + base + at[0], count, s[0], n);
      });
      for (Index c = 0; c < n; ++c)
        out[o * columns + first + c] = Sum(acc[std::size_t(c)] * factor);
    }
  });
}

// Sums elements of type T and multiplies the sums by a factor before they are rounded to the type
// Sum, which is T, or int64 if bool elements are counted.
template <class T, class Sum>
void sum_into(const Split& split, const Tensor& x, Sum* out,
              Accumulator<T> factor = Accumulator<T>(1)) {
  const int last = split.kept.rank() - 1;
  if (last >= 0 && split.kept_strides[last] == 1 && split.kept[last] > 1 &&
      split.reduced.numel() > 1 && x.numel() > 0)
    return sum_columns<T>(split, x, out, factor);
  const StridedLoop<1> inner(split.reduced, {&split.reduced_strides});
  for_each_kept<T>(split, x, split.reduced.numel(), [&](Index o, const T* from) {
    Accumulator<T> total{};
    inner.run([&](const auto& at, Index n, const auto& s) {
      total += kernels::reference::sum(from + at[0], n, s[0]);
    });
    out[o] = Sum(total * factor);
  });
}

// Returns y. If keepdim is true, the result has the reduced axes with size 1.
Tensor shaped(const Tensor& y, const Split& split, bool keepdim) {
  return keepdim ? detail::TensorAccess::view(y, Layout::contiguous(split.with_ones)) : y;
}

// Returns, as int64, the number of true elements of a bool8 tensor along the axes.
Tensor count_true(std::string_view op, const Tensor& x, const Dims& axes, bool keepdim) {
  check<DTypeError>(x.dtype() == bool8, op, "needs bool8, got ", x.dtype());
  const Split split(op, x, axes);
  Tensor y = empty(split.kept, int64);
  sum_into<bool>(split, x, y.mutable_data<std::int64_t>());
  return shaped(y, split, keepdim);
}

// Returns the largest of the reduced elements, or NaN if one of them is NaN.
Tensor largest(const Split& split, const Tensor& x) {
  Tensor y = empty(split.kept, x.dtype());
  const StridedLoop<1> inner(split.reduced, {&split.reduced_strides});
  dispatch_floating(x.dtype(), kMax, [&]<class T> {
    T* out = y.mutable_data<T>();
    for_each_kept<T>(split, x, split.reduced.numel(), [&](Index o, const T* from) {
      T best = *from;
      inner.run([&](const auto& at, Index n, const auto& s) {
        for (Index i = 0; i < n; ++i) {
          const T v = from[at[0] + i * s[0]];
          if (v > best || v != v) best = v;
        }
      });
      out[o] = best;
    });
  });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  const Split split(kSum, x, axes);
  Tensor y = empty(split.kept, x.dtype());
  dispatch_numeric(x.dtype(), kSum, [&]<class T> { sum_into<T>(split, x, y.mutable_data<T>()); });
  if (x.dtype() == int64) return shaped(y, split, keepdim);
  return record(kSum, {x}, shaped(y, split, keepdim),
                [shape = x.shape(), ones = split.with_ones](const Vjp& v) -> Grads {
                  return {expand(reshape(v.grad, ones), shape)};
                });
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  const Split split(kMean, x, axes);
  const double factor = 1.0 / double(split.reduced.numel());
  Tensor y = empty(split.kept, x.dtype());
  dispatch_floating(x.dtype(), kMean, [&]<class T> {
    sum_into<T>(split, x, y.mutable_data<T>(), Accumulator<T>(factor));
  });
  return record(kMean, {x}, shaped(y, split, keepdim),
                [shape = x.shape(), ones = split.with_ones, factor](const Vjp& v) -> Grads {
                  return {expand(reshape(v.grad, ones) * factor, shape)};
                });
}

Tensor var(const Tensor& x, const Dims& axes, const VarOptions& options) {
  const Split split("var", x, axes);
  check<DTypeError>(is_floating(x.dtype()), "var", "needs float32 or float64, got ", x.dtype());
  const Index n = split.reduced.numel();
  check<ValueError>(n > options.correction, "var", "divides by n - correction, got n = ", n,
                    " elements and correction = ", options.correction,
                    "; reduce more elements or set a smaller correction");
  // In float32 the squares could overflow, and the mean would be rounded.
  const Tensor wide = to(x, float64), centered = wide - mean(wide, axes, true);
  const Tensor squares = sum(centered * centered, axes, options.keepdim);
  return to(squares * (1.0 / double(n - options.correction)), x.dtype());
}

Tensor max(const Tensor& x, const Dims& axes, bool keepdim) {
  const Split split(kMax, x, axes);
  check(split.reduced.numel() > 0, kMax, "has no elements to reduce: shape ", x.shape(), ", axes ",
        axes);
  const Tensor y = largest(split, x);
  return record(kMax, {x}, shaped(y, split, keepdim),
                [ones = split.with_ones](const Vjp& v) -> Grads {
                  // If the output is NaN, each NaN of the input is a largest element.
                  const Tensor& u = v.input(0);
                  const Tensor at_max = logical_or(eq(u, reshape(v.output(), ones)), ne(u, u));
                  const Tensor count = sum_to(to(at_max, v.grad.dtype()), ones);
                  const Tensor shared = reshape(v.grad, ones) / count;
                  return {masked_fill(expand(shared, u.shape()), logical_not(at_max), 0)};
                });
}

Tensor min(const Tensor& x, const Dims& axes, bool keepdim) {
  const Split split("min", x, axes);
  check<DTypeError>(is_floating(x.dtype()), "min", "needs float32 or float64, got ", x.dtype());
  check(split.reduced.numel() > 0, "min", "has no elements to reduce: shape ", x.shape(), ", axes ",
        axes);
  return -max(-x, axes, keepdim);
}

Tensor any(const Tensor& x, const Dims& axes, bool keepdim) {
  return gt(count_true("any", x, axes, keepdim), 0.0);
}
Tensor all(const Tensor& x, const Dims& axes, bool keepdim) {
  const Tensor trues = count_true("all", x, axes, keepdim);
  return eq(trues, double(x.numel() / std::max<Index>(1, trues.numel())));
}

Tensor argmax(const Tensor& x, Index axis, bool keepdim) {
  const Split split("argmax", x, {normalized_axis("argmax", x.shape(), axis)});
  check(split.reduced.numel() > 0, "argmax", "has no elements to reduce: shape ", x.shape(),
        ", axis ", axis);
  Tensor y = empty(split.kept, int64);
  std::int64_t* out = y.mutable_data<std::int64_t>();
  dispatch_numeric(x.dtype(), "argmax", [&]<class T> {
    const Index n = split.reduced[0], stride = split.reduced_strides[0];
    for_each_kept<T>(split, x, n, [&](Index o, const T* from) {
      Index best = 0;
      for (Index i = 1; i < n; ++i) {
        const T v = from[i * stride], top = from[best * stride];
        if (v > top || (v != v && top == top)) best = i;
      }
      out[o] = best;
    });
  });
  return shaped(y, split, keepdim);
}

Tensor logsumexp(const Tensor& x, const Dims& axes, bool keepdim) {
  const Split split(kLogsumexp, x, axes);
  const Tensor y = empty(split.kept, x.dtype()), scale = ones(split.with_ones, x.dtype());
  const StridedLoop<1> inner(split.reduced, {&split.reduced_strides});
  dispatch_floating(x.dtype(), kLogsumexp, [&]<class T> {
    using std::exp, std::log1p;
    using Acc = Accumulator<T>;
    T *out = y.mutable_data<T>(), *factor = scale.mutable_data<T>();
    for_each_kept<T>(split, x, split.reduced.numel(), [&](Index o, const T* from) {
      double top = -kInf;  // needs no tangent, because the derivative of the shift cancels
      inner.run([&](const auto& at, Index n, const auto& s) {
        const double largest = kernels::reference::row_max(from + at[0], n, s[0]);
        if (largest > top || largest != largest) top = largest;
      });
      out[o] = T(top);
      if (!std::isfinite(top)) return;
      kernels::reference::ExpBelow<T> exp_below(top);
      Acc rest{};
      inner.run([&](const auto& at, Index n, const auto& s) {
        rest += kernels::reference::sum_of(
            0, n, [&](Index i) { return exp_below(from[at[0] + i * s[0]]); });
      });
      const Acc log_total = log1p(rest);
      out[o] = T(log_total + Acc(top));
      factor[o] = T(exp((Acc(out[o]) - Acc(top)) - log_total));
    });
  });
  return record(kLogsumexp, {x}, shaped(y, split, keepdim),
                [ones = split.with_ones, scale](const Vjp& v) -> Grads {
                  // The gradient is softmax = scale * exp(x - y), where `scale` corrects the
                  // rounding of y. If all elements are -inf, y is -inf, and the gradient must be 0
                  // instead of NaN.
                  const Tensor lse = reshape(v.output(), ones);
                  const Tensor safe = masked_fill(lse, eq(lse, -kInf), 0);
                  return {reshape(v.grad, ones) * scale * exp(v.input(0) - safe)};
                });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check(broadcast("sum_to", x.shape(), shape) == x.shape(), "sum_to", "cannot sum ", x.shape(),
        " to ", shape, ", which does not broadcast to ", x.shape());
  const int lead = x.rank() - shape.rank();
  Dims axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  if (axes.rank() == 0) return x;
  return reshape(sum(x, axes, true), shape);
}

namespace {

// Returns samples of a reduction f(x, axes, keepdim): all axes, one axis, several axes, an axis of
// size 1, and rank 0.
template <class F>
SampleFn reduction_samples(F f, Tensor (SampleGen::*draw)(const Shape&), SkipReason no_repeats) {
  return [f, draw, no_repeats](SampleGen& g) -> Samples {
    const auto over = [f](Dims axes, bool keepdim) {
      return [=](Args t) { return f(t[0], axes, keepdim); };
    };
    return {{"all axes", over({}, false), {(g.*draw)({2, 3})}, no_repeats},
            {"last axis", over({-1}, false), {(g.*draw)({2, 3, 4})}, no_repeats},
            {"outer axes, keepdim", over({0, 2}, true), {(g.*draw)({2, 3, 4})}, no_repeats},
            {"size 1", over({1}, false), {(g.*draw)({3, 1})}, no_repeats},
            {"rank 0", over({}, false), {(g.*draw)({})}, no_repeats}};
  };
}

const Check kMin("min", reduction_samples(static_cast<Reduction*>(min), kApart, kTies));

const Check kVar("var", [](SampleGen& g) -> Samples {
  return {{"Bessel", [](Args t) { return var(t[0], {-1}); }, {g.normal({2, 4})}},
          {"population",
           [](Args t) { return var(t[0], {0}, {.correction = 0, .keepdim = true}); },
           {g.normal({3, 2})}},
          {"rank 0", [](Args t) { return var(t[0], {}, {.correction = 0}); }, {g.normal({})}}};
});

const Check kSumTo("sum_to", [](SampleGen& g) -> Samples {
  return {{"both ways",
           [](Args t) {
             return sum_to(t[0], {3, 1});
           },
           {g.normal({2, 3, 4})}},
          {"rank 0", [](Args t) { return sum_to(t[0], {}); }, {g.normal({})}}};
});

}  // namespace

}  // namespace heed::autograd
