// Random calls of attention with random combinations of its options. Each call can be computed by
// three implementations: the fused kernel, the composite of public ops, and independent einsums.
#pragma once

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/layouts.h"

namespace heed::autograd::testing {

/// Implementation of attention that computes a call.
enum class Implementation { kFused, kComposite, kEinsum };

/// One call of attention. The inputs are float64 tensors whose values are exact in float32.
struct Call {
  Shape scores;                // [..., Tq, Tk]; leading axes: those of q, k, v, broadcast
  std::vector<Tensor> inputs;  // q, k, v and, if there is one, the bias to differentiate
  std::vector<Dims> axes;      // permutation of each input before the call; {}: none
  AttentionOptions options;
  std::string text;  // description for messages

  /// Returns input i after its permutation, as it is passed to attention.
  Tensor arranged(std::size_t i) const {
    return axes[i].rank() == 0 ? inputs[i] : permute(inputs[i], axes[i]);
  }
  Index tq() const { return scores[scores.rank() - 2]; }
  Index tk() const { return scores.back(); }
  /// Returns true if the fused kernel supports the call. It does not if v has leading axes that q
  /// and k do not have, if an input is empty, or if fully masked rows get uniform weights.
  bool fits_kernel() const {
    return !v_has_own_axes() && scores.numel() > 0 && inputs[0].numel() > 0 &&
           inputs[2].numel() > 0 && options.fully_masked != FullyMasked::kUniform;
  }
  /// Returns true if v has leading axes that neither q nor k has. The weights, and therefore
  /// dropout, do not have these axes.
  bool v_has_own_axes() const {
    const auto lead = [&](std::size_t i) {
      const Shape shape = arranged(i).shape();
      return shape.sub(0, shape.rank() - 2);
    };
    return broadcast("test", lead(0), lead(1)) != scores.sub(0, scores.rank() - 2);
  }
  /// Returns true if the bias to differentiate adds one number to all scores of a row. Such a bias
  /// does not change the softmax.
  bool row_shares_bias() const { return inputs.size() > 3 && arranged(3).size(-1) == 1; }
  /// Returns the keep-mask, the causal mask and the window combined, as bool8 with the shape of the
  /// scores. A bias of -inf is not included.
  Tensor kept() const {
    KeepMask keep = options.keep;
    if (options.causal) keep = keep & KeepMask::causal(tq(), tk());
    if (options.window > 0) keep = keep & KeepMask::sliding_window(tq(), tk(), options.window);
    return keep.defined() ? expand(keep.tensor(), scores) : full(scores, 1, bool8);
  }
};

/// Returns the shape [lead..., rows, columns].
inline Shape with_rows(Shape lead, Index rows, Index columns) {
  lead.push_back(rows), lead.push_back(columns);
  return lead;
}

/// Returns a call with contiguous q, k and v, which have the leading axes `lead`. If the shape
/// `bias` has axes, the call has a bias of this shape.
inline Call plain_call(const Shape& lead, Index tq, Index tk, Index d, Index dv,
                       const AttentionOptions& options, const Shape& bias, Generator& g) {
  Call c{
      .scores = with_rows(lead, tq, tk), .inputs = {}, .axes = {}, .options = options, .text = {}};
  std::vector<Shape> shapes = {with_rows(lead, tq, d), with_rows(lead, tk, d),
                               with_rows(lead, tk, dv)};
  if (bias.rank() > 0) shapes.push_back(bias);
  for (const Shape& shape : shapes) {
    c.inputs.push_back(to(randn(shape, float32, g), float64)), c.axes.push_back({});
  }
  return c;
}

/// Returns a random element of the list.
template <class T>
T pick(std::mt19937& random, std::initializer_list<T> from) {
  return *(from.begin() + random() % from.size());
}

/// Returns a random call. Most sizes are at most 64: multiples of a SIMD vector, and sizes between
/// these. Some are larger than the kernel's block of keys (384) or its chunk of queries (96).
inline Call draw_call(std::mt19937& random) {
  using I = Index;
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const auto length = [&] { return pick<I>(random, {1, 2, 3, 5, 7, 16, 33, 48, 49}); };
  const auto width = [&] { return pick<I>(random, {1, 2, 3, 5, 8, 16, 17, 33, 64}); };
  I b = pick<I>(random, {1, 2, 3}), h = pick<I>(random, {1, 2, 3}), tq = length(), tk = length(),
    d = width(), dv = width();
  if (one_in(40)) d = 256;
  if (one_in(5)) tq = pick<I>(random, {97, 130, 300});
  if (one_in(4)) tk = pick<I>(random, {97, 130, 400});
  if (tq * tk > 5000) b = pick<I>(random, {1, 2}), h = 1, d = std::min<I>(d, 8), dv = 3;
  Generator g(random());

  // lead() draws the leading axes of an input: [b, h], one of these axes with size 1, only [h], or
  // none. Rarely q has a third leading axis.
  const bool few = one_in(6);
  const auto lead = [&] {
    if (few) return pick<Shape>(random, {{h}, {}});
    return pick<Shape>(random, {{b, h}, {b, h}, {b, h}, {1, h}, {b, 1}, {h}, {}});
  };
  const Shape leads[] = {one_in(20) ? Shape{2, b, h} : lead(), lead(), lead()};
  const Shape common = broadcast("test", broadcast("test", leads[0], leads[1]), leads[2]);
  b = common.rank() > 1 ? common[common.rank() - 2] : 1;
  h = common.rank() > 0 ? common.back() : 1;
  Call c{.scores = with_rows(common, tq, tk), .inputs = {}, .axes = {}, .options = {}, .text = {}};
  // Changes the shape of a bias or mask so that it does not have more axes than the scores. If the
  // scores have five axes, a shape with four axes gets a fifth.
  const auto fitting = [&](Shape shape) {
    if (common.rank() == 3 && shape.rank() == 4)
      return Shape{pick<I>(random, {1, common[0]}), shape[0], shape[1], shape[2], shape[3]};
    while (shape.rank() > c.scores.rank()) shape = shape.without(0);
    return shape;
  };

  const auto add = [&](Shape shape, const char* name, double hidden = 0) {
    c.text += std::string(" ") + name + "[";
    for (const I size : shape) c.text += std::to_string(size) + " ";
    c.text += "]";
    Dims axes;
    if (shape.rank() == 4 && one_in(2)) {  // stored as [B, T, H, d], like projections
      shape = {shape[0], shape[2], shape[1], shape[3]};
      axes = {0, 2, 1, 3};
    } else if (shape.rank() >= 2 && one_in(4)) {  // the last axis is not contiguous
      const int r = shape.rank();
      std::swap(shape[r - 1], shape[r - 2]);
      for (int i = 0; i < r; ++i) axes.push_back(i);
      std::swap(axes[r - 1], axes[r - 2]);
    }
    Tensor x = to(randn(shape, float32, g), float64);
    if (hidden > 0) x = masked_fill(x, bernoulli(hidden, shape, g), -kInf);
    c.inputs.push_back(x), c.axes.push_back(axes);
  };
  add(with_rows(leads[0], tq, d), "q");
  add(with_rows(leads[1], tk, d), "k");
  add(with_rows(leads[2], tk, dv), "v");

  AttentionOptions& o = c.options;
  if (one_in(9) && common.rank() > 0) {
    o.bias = ScoreBias::alibi(h, tq, tk, float64), c.text += " alibi";
  } else if (!one_in(3)) {
    // The last two shapes add one number to all scores of a row. Such a bias does not change the
    // softmax, unless the number is -inf.
    const Shape shape = fitting(pick<Shape>(random, {{b, h, tq, tk},
                                                     {h, tq, tk},
                                                     {tq, tk},
                                                     {tk},
                                                     {b, 1, 1, tk},
                                                     {b, h, 1, tk},
                                                     {h, 1, tk},
                                                     {tq, 1},
                                                     {h, 1, 1}}));
    const double hidden = one_in(3) ? pick(random, {0.1, 0.5, 0.9}) : 0;
    add(shape, hidden > 0 ? "bias with -inf" : "bias", hidden);
  }
  o.causal = one_in(2);
  // If d is 256, only the default scale is used. With a scale of 1, one key would get all weight,
  // and gradients would consist only of rounding errors.
  if (one_in(3) && d < 256) o.scale = pick(random, {1.0, -0.5, 0.05});
  if (one_in(3) && !c.v_has_own_axes()) o.dropout = pick(random, {0.1, 0.5, 1.0});
  switch (random() % 6) {
    case 0: {
      if (c.scores.rank() < 4) break;
      std::vector<I> lengths;
      for (I i = 0; i < b; ++i) lengths.push_back(I(random() % std::size_t(tk + 1)));
      o.keep = KeepMask::padding(lengths, tk), c.text += " padding";
      break;
    }
    case 1: {
      const I window = pick<I>(random, {-1, -2, -7, 1, 2, 7});
      c.text += " window " + std::to_string(window);
      if (window > 0)
        o.window = window;
      else  // a keep-mask that is a window of -window keys
        o.keep = KeepMask::sliding_window(tq, tk, -window);
      break;
    }
    case 2:
    case 3: {
      const Shape shape = fitting(pick<Shape>(
          random, {{b, 1, 1, tk}, {b, h, tq, tk}, {h, 1, tk}, {h, tq, 1}, {tq, tk}, {tk}}));
      const double p = pick(random, {0.0, 0.2, 0.5, 0.9});
      o.keep = KeepMask(bernoulli(p, shape, g)), c.text += " keep " + std::to_string(p);
      if (one_in(3)) o.keep = o.keep & !KeepMask(bernoulli(0.2, {tk}, g)), c.text += " and not";
      break;
    }
    default:
      break;
  }
  if (one_in(4)) o.fully_masked = FullyMasked::kUniform;
  c.text += o.causal ? " causal" : "";
  c.text += o.fully_masked == FullyMasked::kUniform ? " uniform" : "";
  c.text += o.dropout > 0 ? " dropout " + std::to_string(o.dropout) : "";
  return c;
}

/// Computes attention from its definition. The weight of a key is exp(score), divided by the sum of
/// exp(score) over all keys that the masks keep.
inline Tensor by_einsum(const Call& c, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        const AttentionOptions& o) {
  const Shape lead = c.scores.sub(0, c.scores.rank() - 2);
  const Index tq = c.tq(), tk = c.tk();
  const auto heads = [&](const Tensor& x) {  // [product of leading axes, T, d]
    return reshape(expand(x, with_rows(lead, x.size(-2), x.size(-1))),
                   {lead.numel(), x.size(-2), x.size(-1)});
  };
  Tensor scores =
      einsum("head query width, head key_ width -> head query key_", {heads(q_in), heads(k_in)}) *
      o.scale.value_or(1 / std::sqrt(double(q_in.size(-1))));
  scores = reshape(scores, c.scores);
  if (o.bias.defined()) scores = scores + o.bias.tensor();
  const Tensor visible = logical_and(c.kept(), ne(scores.detach(), -kInf));
  const Tensor hidden = logical_not(visible), fully_masked = logical_not(any(visible, {-1}, true));
  Tensor weights = scores;
  if (tk > 0) {
    const Tensor top = max(masked_fill(scores.detach(), hidden, -kInf), {-1}, true);
    const Tensor above = scores - masked_fill(top, fully_masked, 0);
    const Tensor e = masked_fill(exp(masked_fill(above, hidden, 0)), hidden, 0);
    weights = e / masked_fill(sum(e, {-1}, true), fully_masked, 1);
  }
  if (o.fully_masked == FullyMasked::kUniform)
    weights = masked_fill(weights, expand(fully_masked, c.scores), 1 / double(tk));
  if (o.dropout > 0) weights = dropout(weights, o.dropout, o.generator->next_u64());
  const Tensor out =
      einsum("hqk,hkv->hqv", {reshape(weights, {lead.numel(), tq, tk}), heads(v_in)});
  return reshape(out, with_rows(lead, tq, v_in.size(-1)));
}

/// Returns the output and the gradients with respect to all inputs. If `second` is true, it also
/// returns the second derivatives in a random direction.
inline std::vector<Tensor> run(const Call& c, Implementation implementation, DType dtype,
                               bool second = false) {
  std::vector<Tensor> leaves, x;
  for (const Tensor& input : c.inputs) leaves.push_back(to(input, dtype).detach().requires_grad_());
  for (std::size_t i = 0; i < leaves.size(); ++i)
    x.push_back(c.axes[i].rank() == 0 ? leaves[i] : permute(leaves[i], c.axes[i]));
  Generator key(11), g(12);
  AttentionOptions o = c.options;
  o.generator = &key;
  if (o.bias.defined()) o.bias = ScoreBias(to(o.bias.tensor(), dtype));
  if (x.size() > 3) o.bias = ScoreBias(x[3]);
  const Tensor y = implementation == Implementation::kFused ? attention(x[0], x[1], x[2], o)
                   : implementation == Implementation::kComposite
                       ? attention_with_weights(x[0], x[1], x[2], o).output
                       : by_einsum(c, x[0], x[1], x[2], o);
  CHECK(has_op(y, "attention") == (implementation == Implementation::kFused && c.fits_kernel()));
  const auto direction = [&](const Tensor& like) {
    return to(randn(like.shape(), float32, g), dtype);
  };
  std::vector<Tensor> results{y.detach()};
  const auto first = grad(y, leaves, {.grad_output = direction(y), .create_graph = second});
  for (const Tensor& d : first) results.push_back(d.detach());
  if (!second) return results;
  Tensor along = sum(first[0] * direction(first[0]));
  for (std::size_t i = 1; i < first.size(); ++i)
    along = along + sum(first[i] * direction(first[i]));
  for (const Tensor& d : grad(along, leaves, {.allow_unused = true})) results.push_back(d);
  return results;
}

/// Stores the tensors that the observers of its AttentionHooks receive.
struct RecordedTensors {
  static constexpr const char* kNames[] = {"raw scores",
                                           "scores",
                                           "pattern",
                                           "dropped",
                                           "raw scores' gradient",
                                           "scores' gradient",
                                           "pattern's gradient",
                                           "dropped's gradient"};
  Tensor x[std::size(kNames)];

  RecordedTensors() {
    std::size_t i = 0;
    for (AttentionHooks::Observer* observer :
         {&hooks.raw_scores, &hooks.scores, &hooks.pattern, &hooks.dropped, &hooks.raw_scores_grad,
          &hooks.scores_grad, &hooks.pattern_grad, &hooks.dropped_grad})
      *observer = [&at = x[i++]](const Tensor& seen) { at = seen; };
  }
  RecordedTensors(const RecordedTensors&) = delete;
  AttentionHooks hooks;
  const Tensor& scores() const { return x[1]; }
  const Tensor& pattern_grad() const { return x[6]; }
};

}  // namespace heed::autograd::testing
