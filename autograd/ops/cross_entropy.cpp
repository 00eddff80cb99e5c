// cross_entropy: the mean negative log-likelihood of target classes, computed directly from logits.
#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

using kernels::Accumulator;
using kernels::LogSumExp;

Samples cross_entropy_samples(SampleGen& g);
const Op kCrossEntropy({.name = "cross_entropy",
                        .saves = Saves::kInputs,
                        .samples = cross_entropy_samples,
                        .no_sizes = needs_axis()});

// Returns the number of rows in one parallel chunk.
Index row_grain(Index classes) {
  constexpr Index kExpCost = 2;  // cost of a vectorized exponential, in additions
  return std::max<Index>(1, kGrain / (classes * kExpCost));
}

void check_arguments(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& o) {
  check(logits.rank() >= 1 && targets.shape() == logits.shape().sub(0, logits.rank() - 1),
        kCrossEntropy, "needs logits [..., C] and targets [...], got ", logits.shape(), " and ",
        targets.shape(), "; the classes are the last axis of the logits");
  check(logits.size(-1) > 0, kCrossEntropy, "needs at least one class, got logits ",
        logits.shape());
  check<DTypeError>(targets.dtype() == int64, kCrossEntropy, "needs int64 targets, got ",
                    targets.dtype());
  check<ValueError>(o.label_smoothing >= 0 && o.label_smoothing <= 1, kCrossEntropy,
                    "needs label_smoothing in [0, 1], got ", o.label_smoothing);
}

// Returns the number of targets that are not ignored. `targets` must be contiguous. Throws
// ValueError for a target that is neither ignored nor a class.
Index count_targets(const Tensor& targets, Index classes, Index ignored) {
  const std::int64_t* t = targets.data<std::int64_t>();
  Index counted = 0;
  for (Index r = 0; r < targets.numel(); ++r) {
    if (t[r] == ignored) continue;
    ++counted;
    if (t[r] >= 0 && t[r] < classes) continue;
    fail<ValueError>(kCrossEntropy, "target ", t[r], " at ", unravel(r, targets.shape()),
                     " is out of range: C = ", classes, ", so classes are 0 to ", classes - 1,
                     " (ignore_index is ", ignored, ")");
  }
  return counted;
}

// Returns the factor of the loss of each row in the mean. `counted` is the number of targets that
// are not ignored. The factor is 1 / counted, or 0 if `counted` is 0.
double mean_weight(Index counted) { return counted > 0 ? 1.0 / double(counted) : 0; }

struct Forward {
  Tensor loss;
  Tensor lse;  // [rows, 2]: log-sum-exp in two parts (kernels::LogSumExp), in the accumulator type
};

Forward forward(const Tensor& x, const Tensor& targets, Index counted,
                const CrossEntropyOptions& o) {
  const Index n = x.size(-1), rows = targets.numel();
  Forward result;
  result.loss = empty(o.reduction == Reduction::kNone ? targets.shape() : Shape{}, x.dtype());
  dispatch_floating(x.dtype(), kCrossEntropy, [&]<class T> {
    using Acc = Accumulator<T>;
    const Tensor losses = empty({rows}, kDTypeOf<Acc>);
    result.lse = empty({rows, 2}, kDTypeOf<Acc>);
    Acc* loss = losses.mutable_data<Acc>();
    Acc* lse = result.lse.template mutable_data<Acc>();
    const T* in = x.data<T>();
    const std::int64_t* target = targets.data<std::int64_t>();
    parallel_for(rows, row_grain(n), [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r) {
        loss[r] = Acc(0);
        if (target[r] == o.ignore_index) continue;
        LogSumExp<T> row;
        loss[r] = kernels::cross_entropy(row, in + r * n, n, target[r], o.label_smoothing);
        lse[2 * r] = row.top;
        lse[2 * r + 1] = row.log_total;
      }
    });
    T* y = result.loss.template mutable_data<T>();
    if (o.reduction == Reduction::kNone) {
      for (Index r = 0; r < rows; ++r) y[r] = T(loss[r]);
    } else {
      const Acc total = kernels::reference::sum(loss, rows, 1);
      *y = T(o.reduction == Reduction::kSum || counted == 0 ? total : total / Acc(double(counted)));
    }
  });
  return result;
}

// Returns the gradient of the logits: upstream gradient * (softmax - target distribution). It is 0
// in ignored rows.
Grads backward(const Vjp& v, const Tensor& row_lse, Index counted, const CrossEntropyOptions& o) {
  const Tensor g = contiguous(v.grad), x = contiguous(v.input(0)), targets = contiguous(v.input(1));
  const Index n = x.size(-1);
  const Tensor dx = empty_like(x);
  dispatch_floating(x.dtype(), kCrossEntropy, [&]<class T> {
    using Acc = Accumulator<T>;
    const Acc weight(o.reduction == Reduction::kMean ? mean_weight(counted) : 1.0);
    const Index g_stride = o.reduction == Reduction::kNone ? 1 : 0;
    const T *pg = g.data<T>(), *in = x.data<T>();
    const std::int64_t* target = targets.data<std::int64_t>();
    const Acc* lse = row_lse.data<Acc>();
    T* out = dx.mutable_data<T>();
    parallel_for(targets.numel(), row_grain(n), [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r) {
        T* row = out + r * n;
        if (target[r] == o.ignore_index)
          std::fill_n(row, n, T(0));
        else
          kernels::cross_entropy_backward(row, in + r * n, n, target[r], o.label_smoothing,
                                          LogSumExp<T>{lse[2 * r], lse[2 * r + 1]},
                                          Acc(pg[r * g_stride]) * weight);
      }
    });
  });
  return {dx, Tensor()};
}

// Computes cross_entropy from public ops. Ignored rows are replaced by 0 before use, so that a NaN
// in an ignored row changes neither the loss nor a gradient. Terms with factor 0 are omitted,
// because 0 * inf is NaN.
Tensor definition(const Tensor& logits, const Tensor& targets, Index counted,
                  const CrossEntropyOptions& o) {
  const Tensor ignored = eq(targets, double(o.ignore_index));
  const Tensor x = masked_fill(logits, unsqueeze(ignored, -1), 0);
  const Tensor log_p = log_softmax(x, -1);
  const Tensor classes = unsqueeze(masked_fill(targets, ignored, 0), -1);
  const double eps = o.label_smoothing;
  Tensor loss;
  if (eps < 1) loss = squeeze(gather(log_p, -1, classes), -1) * (eps - 1);
  if (eps > 0) {
    const Tensor spread = mean(log_p, {-1}) * -eps;
    loss = loss.defined() ? loss + spread : spread;
  }
  loss = masked_fill(loss, ignored, 0);
  if (o.reduction == Reduction::kNone) return loss;
  return o.reduction == Reduction::kSum ? sum(loss) : sum(loss) * mean_weight(counted);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  check_arguments(logits, targets, options);
  const Tensor classes = contiguous(targets);
  const Index counted = count_targets(classes, logits.size(-1), options.ignore_index);
  const Forward result = forward(detail::row_major(logits), classes, counted, options);
  // The targets are an input of the node, so that an in-place change of the targets is detected.
  return record(
      kCrossEntropy, {logits, targets}, result.loss,
      [counted, options](Args t) { return definition(t[0], t[1], counted, options); },
      [lse = result.lse, counted, options](const Vjp& v) {
        return backward(v, lse, counted, options);
      });
}

namespace {

Samples cross_entropy_samples(SampleGen& g) {
  const auto loss_with = [](const Tensor& targets, const CrossEntropyOptions& options) {
    return [targets, options](Args t) { return cross_entropy(t[0], targets, options); };
  };
  const Tensor some_ignored = tensor({2, -100, 0, 4}, int64);
  const Tensor all_ignored = tensor({-100, -100}, int64);
  const auto mask = from_data(std::vector<bool>{false, true, true, false, false, true}, {2, 3});
  const Tensor unmasked = tensor({0, 1}, int64);
  return {
      {"mean", loss_with(g.integers(0, 5, {3}), {}), {g.normal({3, 5})}},
      {"sum, rank 3",
       loss_with(g.integers(0, 4, {2, 3}), {.reduction = Reduction::kSum}),
       {g.normal({2, 3, 4})}},
      {"none",
       loss_with(g.integers(0, 4, {2, 2}), {.reduction = Reduction::kNone}),
       {g.normal({2, 2, 4})}},
      {"one row of rank 1", loss_with(tensor(1, int64), {}), {g.normal({3})}},
      {"smoothing", loss_with(g.integers(0, 5, {3}), {.label_smoothing = 0.2}), {g.normal({3, 5})}},
      {"smoothing 1", loss_with(g.integers(0, 5, {2}), {.label_smoothing = 1}), {g.normal({2, 5})}},
      {"ignored rows", loss_with(some_ignored, {}), {g.normal({4, 5})}},
      {"ignored rows, smoothing, none",
       loss_with(some_ignored, {.label_smoothing = 0.1, .reduction = Reduction::kNone}),
       {g.normal({4, 5})}},
      {"every row ignored", loss_with(all_ignored, {}), {g.normal({2, 3})}},
      {"-inf beside the target",
       [mask, unmasked](Args t) { return cross_entropy(masked_fill(t[0], mask, -kInf), unmasked); },
       {g.normal({2, 3})}},
      {"one class", loss_with(tensor({0, 0}, int64), {}), {g.normal({2, 1})}},
      {"no rows, mean", loss_with(zeros({0}, int64), {}), {g.normal({0, 3})}},
      {"no rows, none",
       loss_with(zeros({2, 0}, int64), {.reduction = Reduction::kNone}),
       {g.normal({2, 0, 3})}}};
}

}  // namespace

}  // namespace heed::autograd
