// Attention composed of public ops, with every intermediate value differentiable. It is the
// definition of the fused op. It also runs for arguments that the fused kernel does not support.
#include "autograd/ops/attention_with_weights.h"

#include <cmath>

#include "autograd/graph/graph.h"
#include "autograd/ops/operands.h"
#include "autograd/tensor/copy.h"

namespace heed::autograd {
namespace {

// Returns x, or replace(x) if `replace` is set. Calls `value` with the result now, and `gradient`
// with the complete gradient of the result during the backward pass.
Tensor hooked(Tensor x, const AttentionHooks::Replace& replace,
              const AttentionHooks::Observer& value, const AttentionHooks::Observer& gradient) {
  if (replace) x = replace(x);
  if (value) value(x.detach());
  if (gradient && x.requires_grad())
    x.register_hook([gradient](const Tensor& g) {
      gradient(g.detach());
      return Tensor();
    });
  return x;
}

// The products of attention are W Y, W^T X and X Y^T. The shapes are W [..., Tq, Tk] (weights),
// X [..., Tq, n] and Y [..., Tk, n]. `hidden` broadcasts to the shape of W, and is true where a
// query may not read a key. There, a term that is not finite counts as 0, because 0 * NaN is NaN.
// The derivatives of each product are products of these three kinds. No sum of gradients [Tq, Tk]
// therefore adds a matrix and a transposed matrix, which would be slow.
Tensor weights_times(const Tensor& w, const Tensor& y, const Tensor& hidden);
Tensor transposed_times(const Tensor& w, const Tensor& x, const Tensor& hidden);
Tensor times_transposed(const Tensor& x, const Tensor& y, const Tensor& hidden);

Samples product_samples(SampleGen& g);
const Op kProduct({.name = "attention_product",
                   .saves = Saves::kInputs,
                   .broadcasts = true,
                   .samples = product_samples,
                   .no_sizes = needs_axis()});

// Returns false if an element is not finite. May also return false if the sum of all elements
// overflows.
bool all_finite(const Tensor& x) { return isfinite(sum(x)).item<bool>(); }

// Computes W Y. If a sum is not finite, the terms with a factor that is not finite are added after
// the others, or left out where `hidden` is true.
Tensor sum_of_terms(Tensor w, Tensor y, const Tensor& hidden) {
  Tensor sums = matmul(w, y);
  if (all_finite(sums)) return sums;
  const auto finite = [](const Tensor& x) { return masked_fill(x, logical_not(isfinite(x)), 0); };
  Tensor out = matmul(finite(w), finite(y));
  detail::unify(kProduct, w, y);
  const Shape lead = out.shape().sub(0, out.rank() - 2);
  const Index tq = w.size(-2), tk = w.size(-1), n = y.size(-1);
  w = contiguous(expand(w, lead.joined({tq, tk})));
  y = contiguous(expand(y, lead.joined({tk, n})));
  const Tensor skipped = contiguous(expand(hidden, w.shape()));
  dispatch_floating(out.dtype(), kProduct, [&]<class T> {
    const bool* skip = skipped.data<bool>();
    const T *weights = w.data<T>(), *rows = y.data<T>();
    T* sums_of_rows = out.mutable_data<T>();
    for (Index i = 0; i < w.numel(); ++i) {
      if (skip[i]) continue;
      const T weight = weights[i];
      const T* row = rows + (i / (tq * tk) * tk + i % tk) * n;
      T* sum = sums_of_rows + i / tk * n;
      for (Index c = 0; c < n; ++c)
        if (!std::isfinite(real(weight)) || !std::isfinite(real(row[c]))) sum[c] += weight * row[c];
    }
  });
  return out;
}

Tensor weights_times(const Tensor& w, const Tensor& y, const Tensor& hidden) {
  if (!hidden.defined()) return matmul(w, y);
  return record(kProduct, {w, y}, sum_of_terms(w.detach(), y.detach(), hidden),
                [h = Captured(kProduct, hidden)](const Vjp& v) -> Grads {
                  return {v.needs(0) ? times_transposed(v.grad, v.input(1), h.get()) : Tensor(),
                          v.needs(1) ? transposed_times(v.input(0), v.grad, h.get()) : Tensor()};
                });
}

Tensor transposed_times(const Tensor& w, const Tensor& x, const Tensor& hidden) {
  return record(kProduct, {w, x}, sum_of_terms(mT(w.detach()), x.detach(), mT(hidden)),
                [h = Captured(kProduct, hidden)](const Vjp& v) -> Grads {
                  return {v.needs(0) ? times_transposed(v.input(1), v.grad, h.get()) : Tensor(),
                          v.needs(1) ? weights_times(v.input(0), v.grad, h.get()) : Tensor()};
                });
}

Tensor times_transposed(const Tensor& x, const Tensor& y, const Tensor& hidden) {
  if (!hidden.defined()) return matmul(x, mT(y));
  Tensor w = matmul(x.detach(), mT(y.detach()));
  if (!all_finite(w)) w = masked_fill(w, logical_and(hidden, logical_not(isfinite(w))), 0);
  return record(kProduct, {x, y}, w, [h = Captured(kProduct, hidden)](const Vjp& v) -> Grads {
    return {v.needs(0) ? weights_times(v.grad, v.input(1), h.get()) : Tensor(),
            v.needs(1) ? transposed_times(v.grad, v.input(0), h.get()) : Tensor()};
  });
}

// Returns bool8 [..., Tq, 1]: true for each row of scores [..., Tq, Tk] whose largest score is
// -inf.
Tensor fully_masked_rows(const Tensor& scores) {
  if (scores.size(-1) == 0) return full(scores.shape().with(-1, 1), 1, bool8);
  return eq(max(scores.detach(), {-1}, true), -kInf);
}

Tensor soft_capped(const Tensor& scores, double cap) {
  check<ValueError>(cap >= 0 && std::isfinite(cap), "attention",
                    "needs a finite soft_cap >= 0, got ", cap);
  check<ValueError>(!rounds_to_zero(cap, scores.dtype()), "attention", "soft_cap ", cap,
                    " is rounded to 0 in ", scores.dtype(), "; needs 0 or at least 1e-37");
  return cap == 0 ? scores : cap * tanh(scores / cap);
}

}  // namespace

std::uint64_t attention_dropout_key(const AttentionOptions& options) {
  if (options.dropout == 0) return 0;
  return (options.generator ? *options.generator : default_generator()).next_u64();
}

AttentionResult attention_definition(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& bias, const AttentionOptions& options,
                                     std::uint64_t key) {
  check(q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2 && q.size(-1) == k.size(-1) &&
            k.size(-2) == v.size(-2),
        "attention", "needs q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value], got ", q.shape(),
        ", ", k.shape(), ", ", v.shape());
  check<DTypeError>(!bias.defined() || can_mix(bias.dtype(), q.dtype()), "attention",
                    "needs a bias of the queries' ", q.dtype(), ", got ",
                    bias.defined() ? bias.dtype() : q.dtype());
  check<ValueError>(options.window >= 0, "attention", "needs window >= 0, got ", options.window);
  const double scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const Index tq = q.size(-2), tk = k.size(-2);
  KeepMask mask = options.keep;
  if (options.causal) mask = mask & KeepMask::causal(tq, tk);
  if (options.window > 0) mask = mask & KeepMask::sliding_window(tq, tk, options.window);
  // A bias of -inf is a mask, too.
  if (bias.defined() && any(eq(bias, -kInf)).item<bool>()) mask = mask & KeepMask(ne(bias, -kInf));
  Tensor queries = q * scale;
  Tensor hidden;  // [..., Tq, Tk]; undefined if every query may read every key
  if (mask.defined()) {
    hidden = logical_not(mask.tensor());
    const Shape scores = broadcast("attention", q.shape().with(-1, tk), hidden.shape());
    queries = expand(queries, scores.with(-1, q.size(-1)));
  }
  static const AttentionHooks kNone;
  const AttentionHooks& hooks = options.hooks ? *options.hooks : kNone;
  AttentionResult r;
  r.raw_scores = hooked(times_transposed(queries, k, hidden),  // [..., Tq, Tk]
                        hooks.on_raw_scores, hooks.raw_scores, hooks.raw_scores_grad);
  const Tensor capped = soft_capped(r.raw_scores, options.soft_cap);
  r.scores = hooked(mask.apply(bias.defined() ? capped + bias : capped), hooks.on_scores,
                    hooks.scores, hooks.scores_grad);
  Tensor logits = r.scores;
  if (options.fully_masked == FullyMasked::kUniform) {  // softmax already implements kZero
    const Tensor masked = fully_masked_rows(r.scores);
    logits = masked_fill(r.scores, masked, 0);
    if (hidden.defined())  // a row with uniform weights reads every value
      hidden = logical_and(hidden, logical_not(masked));
  }
  r.pattern = hooked(softmax(logits, -1), hooks.on_pattern, hooks.pattern, hooks.pattern_grad);
  r.dropped = hooked(dropout(r.pattern, options.dropout, key), hooks.on_dropped, hooks.dropped,
                     hooks.dropped_grad);
  r.output = weights_times(r.dropped, v, hidden);
  return r;
}

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options) {
  return attention_definition(q, k, v, options.bias.tensor(), options,
                              attention_dropout_key(options));
}

namespace {

const Check kAttentionWithWeights(
    "attention_with_weights",
    [](SampleGen& g) -> Samples {
      const auto f = [](Args t) {
        const AttentionResult r = attention_with_weights(t[0], t[1], t[2], {.causal = true});
        return matmul(r.dropped + r.raw_scores, t[2]) * r.output;
      };
      return {{"heads", f, {g.normal({2, 3, 4}), g.normal({2, 3, 4}), g.normal({2, 3, 5})}}};
    },
    needs_axis());

Samples product_samples(SampleGen& g) {
  const Tensor m = g.mask({2, 3});
  return {{"weights times values",
           [m](Args t) { return weights_times(t[0], t[1], m); },
           {g.normal({2, 2, 3}), g.normal({3, 2})}},
          {"transposed weights times gradients",
           [m](Args t) { return transposed_times(t[0], t[1], m); },
           {g.normal({2, 2, 3}), g.normal({2, 2})}},
          {"queries times keys",
           [m](Args t) { return times_transposed(t[0], t[1], m); },
           {g.normal({2, 4}), g.normal({2, 3, 4})}}};
}

}  // namespace

}  // namespace heed::autograd
