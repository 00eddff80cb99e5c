// Scaled dot-product attention, as a composite of public ops.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/samples.h"

namespace heed::autograd {
namespace {

Samples attention_samples(SampleGen& g) {
  const auto with = [](AttentionOptions options) {
    return [options](Args t) { return attention(t[0], t[1], t[2], options); };
  };
  const auto qkv = [&g](std::int64_t tq, std::int64_t tk) -> std::vector<Tensor> {
    return {g.normal({2, tq, 3}), g.normal({2, tk, 3}), g.normal({2, tk, 2})};
  };
  const Tensor keep = from_data(
      std::vector<bool>{true, false, true, false, false, false, true, true, false}, {3, 3});
  return {{"plain", with({}), qkv(2, 3)},
          {"causal", with({.causal = true}), qkv(4, 4)},
          {"causal, more keys", with({.scale = 0.3, .causal = true}), qkv(2, 4)},
          {"a row masked, a key unread", with({.keep = KeepMask(keep)}), qkv(3, 3)},
          {"everything masked",
           with({.keep = KeepMask(full({3, 3}, 0, bool8))}), qkv(3, 3)},
          {"dropout", [](Args t) {
             Generator fixed(7);
             return attention(t[0], t[1], t[2], {.dropout = 0.4, .generator = &fixed});
           }, qkv(3, 3)}};
}
const Check kAttention("attention", attention_samples);

// Places that may be read, [..., Tq, Tk], or undefined for all.
Tensor readable(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  KeepMask keep = options.keep;
  if (options.causal) keep = keep & KeepMask::causal(q.size(-2), k.size(-2));
  return keep.tensor();
}

}  // namespace

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k_in, const Tensor& v_in,
                                       const AttentionOptions& options) {
  check(q.rank() >= 2 && k_in.rank() >= 2 && v_in.rank() >= 2 && q.size(-1) == k_in.size(-1) &&
            k_in.size(-2) == v_in.size(-2),
        "attention", "needs q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value], got ", q.shape(),
        ", ", k_in.shape(), ", ", v_in.shape());
  const double scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const Tensor keep = readable(q, k_in, options);
  Tensor k = k_in, v = v_in;
  if (keep.defined()) {
    // 0 * NaN is NaN: keys that no query reads are cleared, not multiplied away.
    const Tensor unread = logical_not(any(keep, {-2}, true));  // [..., 1, Tk]
    if (any(unread).item() != 0) {
      const Tensor gone = mT(unread);  // [..., Tk, 1]
      k = masked_fill(expand(k, broadcast("attention", k.shape(), gone.shape())), gone, 0);
      v = masked_fill(expand(v, broadcast("attention", v.shape(), gone.shape())), gone, 0);
    }
  }
  AttentionResult r;
  r.scores = matmul(q * scale, mT(k));  // [..., Tq, Tk]
  if (keep.defined())
    r.scores = masked_fill(expand(r.scores, broadcast("attention", r.scores.shape(), keep.shape())),
                           logical_not(keep), -kInf);
  if (options.on_scores) r.scores = options.on_scores(r.scores);
  r.pattern = softmax(r.scores, -1);
  if (options.on_pattern) r.pattern = options.on_pattern(r.pattern);
  Generator& generator = options.generator ? *options.generator : default_generator();
  r.output = matmul(dropout(r.pattern, options.dropout, generator), v);
  return r;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  return attention_with_weights(q, k, v, options).output;
}

}  // namespace heed::autograd
