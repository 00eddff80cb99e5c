// Attention composed of public ops, with every intermediate value differentiable. It is the
// definition of the fused op. It also runs for arguments that the fused kernel does not support.
#include "autograd/ops/attention_with_weights.h"

#include <algorithm>
#include <cmath>

#include "autograd/graph/graph.h"

namespace heed::autograd {
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

// Returns bool8 [..., Tq, 1]: true for each row of scores [..., Tq, Tk] whose largest score is
// -inf.
Tensor fully_masked_rows(const Tensor& scores) {
  if (scores.size(-1) == 0) return full(scores.shape().with(-1, 1), 1, bool8);
  return eq(max(scores.detach(), {-1}, true), -kInf);
}

Tensor soft_capped(const Tensor& scores, double cap) {
  check<ValueError>(cap >= 0 && std::isfinite(cap), "attention", "needs soft_cap >= 0, got ", cap);
  return cap == 0 ? scores : cap * tanh(scores / cap);
}

}  // namespace

void throw_if_fully_masked(const Tensor& fully_masked) {
  const std::vector<bool> rows = fully_masked.to_vector<bool>();
  const std::int64_t flat = std::find(rows.begin(), rows.end(), true) - rows.begin();
  if (flat == std::ssize(rows)) return;
  fail<ValueError>("attention", "query ", unravel(flat, fully_masked.shape()),
                   " of [..., Tq] = ", fully_masked.shape(),
                   " may read no key; unmask one for it, or choose FullyMasked::kZero or kUniform");
}

std::uint64_t attention_dropout_key(const AttentionOptions& options) {
  if (options.dropout == 0) return 0;
  return (options.generator ? *options.generator : default_generator()).next_u64();
}

AttentionResult attention_definition(const Tensor& q, const Tensor& k_in, const Tensor& v_in,
                                     const Tensor& bias, const AttentionOptions& options,
                                     std::uint64_t key) {
  check(q.rank() >= 2 && k_in.rank() >= 2 && v_in.rank() >= 2 && q.size(-1) == k_in.size(-1) &&
            k_in.size(-2) == v_in.size(-2),
        "attention", "needs q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value], got ", q.shape(),
        ", ", k_in.shape(), ", ", v_in.shape());
  check<DTypeError>(
      !bias.defined() || bias.dtype() == q.dtype() || is_dual(bias.dtype()) || is_dual(q.dtype()),
      "attention", "needs a bias of the queries' ", q.dtype(), ", got ",
      bias.defined() ? bias.dtype() : q.dtype());
  check<ValueError>(options.window >= 0, "attention", "needs window >= 0, got ", options.window);
  const double scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const std::int64_t tq = q.size(-2), tk = k_in.size(-2);
  KeepMask mask = options.keep;
  if (options.causal) mask = mask & KeepMask::causal(tq, tk, options.alignment);
  if (options.window > 0)
    mask = mask & KeepMask::sliding_window(tq, tk, options.window, options.alignment);
  const Tensor keep = mask.tensor();  // [..., Tq, Tk]; undefined if every key may be read
  // Sets keys or values that no query may read to 0. A weight of 0 is not enough, because 0 * NaN
  // is NaN.
  const auto cleared = [](const Tensor& x, const Tensor& unread) {  // unread: [..., 1, Tk]
    if (!unread.defined() || !any(unread).item<bool>()) return x;
    const Tensor gone = mT(unread);  // [..., Tk, 1]
    return masked_fill(expand(x, broadcast("attention", x.shape(), gone.shape())), gone, 0);
  };
  Tensor unread = keep.defined() ? logical_not(any(keep, {-2}, true)) : Tensor();
  const Tensor k = cleared(k_in, unread);
  static const AttentionHooks kNone;
  const AttentionHooks& hooks = options.hooks ? *options.hooks : kNone;
  AttentionResult r;
  r.raw_scores = hooked(matmul(q * scale, mT(k)),  // [..., Tq, Tk]
                        hooks.on_raw_scores, hooks.raw_scores, hooks.raw_scores_grad);
  const Tensor capped = soft_capped(r.raw_scores, options.soft_cap);
  r.scores = hooked(mask.apply(bias.defined() ? capped + bias : capped), hooks.on_scores,
                    hooks.scores, hooks.scores_grad);
  Tensor logits = r.scores;
  if (options.fully_masked != FullyMasked::kZero) {  // softmax already implements kZero
    const Tensor masked = fully_masked_rows(r.scores);
    if (options.fully_masked == FullyMasked::kError) throw_if_fully_masked(squeeze(masked, -1));
    logits = masked_fill(r.scores, masked, 0);
    if (unread.defined())  // a row with uniform weights reads every value
      unread = logical_and(unread, logical_not(any(masked, {-2}, true)));
  }
  const Tensor v = cleared(v_in, unread);
  r.pattern = hooked(softmax(logits, -1), hooks.on_pattern, hooks.pattern, hooks.pattern_grad);
  r.dropped = hooked(dropout(r.pattern, options.dropout, key), hooks.on_dropped, hooks.dropped,
                     hooks.dropped_grad);
  r.output = matmul(r.dropped, v);
  return r;
}

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options) {
  return attention_definition(q, k, v, options.bias.tensor(), options,
                              attention_dropout_key(options));
}

}  // namespace heed::autograd
