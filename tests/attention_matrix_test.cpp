// Attention three ways, as fused kernel, as composite of public ops and spelled in einsums, over
// calls drawn from everything it takes: values, gradients and second derivatives.
#include <cmath>
#include <random>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/layouts.h"

namespace {

using namespace heed::autograd;
using heed::autograd::testing::same_bits;
using heed::autograd::testing::values;

constexpr int kCalls = 400;

enum class Way { kFused, kComposite, kEinsum };

// One call: what it is given, in float64 with float32's values.
struct Call {
  std::vector<Tensor> inputs;  // as they lie in memory; q, k, v, and the bias if there is one
  std::vector<Dims> axes;      // how each is permuted to be attended with; empty: as it is
  AttentionOptions options;
  std::string text;
};

Tensor arranged(const Tensor& x, const Dims& axes) {
  return axes.rank() == 0 ? x : permute(x, axes);
}

// The einsum spelling: what the words say, knowing nothing of the composite.
Tensor by_einsum(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                 const AttentionOptions& o) {
  const auto lead = [](const Tensor& x) { return x.shape().sub(0, x.rank() - 2); };
  Shape common = broadcast("test", broadcast("test", lead(q_in), lead(k_in)), lead(v_in));
  while (common.rank() < 2) common.insert(0, 1);
  const auto heads = [&](const Tensor& x) {
    return expand(x, {common[0], common[1], x.size(-2), x.size(-1)});
  };
  const Tensor q = heads(q_in), k = heads(k_in), v = heads(v_in);
  const std::int64_t tq = q.size(2), tk = k.size(2);
  Tensor scores =
      einsum("batch head query width, batch head key_ width -> batch head query key_", {q, k}) *
      o.scale.value_or(1 / std::sqrt(double(q.size(3))));
  if (o.bias.defined()) scores = scores + o.bias.tensor();
  Tensor keep = full({1, 1, tq, tk}, 1, bool8);
  if (o.keep.defined()) keep = logical_and(keep, o.keep.tensor());
  if (o.causal) keep = logical_and(keep, KeepMask::causal(tq, tk, o.alignment).tensor());
  // exp over sum of exps, of the kept alone.
  keep = expand(keep, scores.shape());
  const Tensor top = max(masked_fill(scores.detach(), logical_not(keep), -1e300), {-1}, true);
  const Tensor e =
      masked_fill(exp(masked_fill(scores - top, logical_not(keep), 0)), logical_not(keep), 0);
  const Tensor total = sum(e, {-1}, true), none = eq(total, 0.0);
  Tensor weights = e / masked_fill(total, none, 1);
  if (o.fully_masked == FullyMasked::kUniform)
    weights = masked_fill(weights, expand(none, weights.shape()), 1 / double(tk));
  if (o.dropout > 0) weights = dropout(weights, o.dropout, o.generator->next_u64());
  const Tensor out = einsum("bhqk,bhkv->bhqv", {weights, v});
  return reshape(out, [&] {
    Shape shape = broadcast("test", broadcast("test", lead(q_in), lead(k_in)), lead(v_in));
    shape.push_back(tq), shape.push_back(v.size(3));
    return shape;
  }());
}

// The output, gradients of all inputs and, if wanted, second derivatives in a random direction.
std::vector<Tensor> run(const Call& c, Way way, DType dtype, bool second = false) {
  std::vector<Tensor> leaves, x;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    leaves.push_back(to(c.inputs[i], dtype).detach().requires_grad());
    x.push_back(arranged(leaves[i], c.axes[i]));
  }
  Generator key(11), g(12);
  AttentionOptions o = c.options;
  o.generator = &key;
  if (o.bias.defined()) o.bias = ScoreBias(to(o.bias.tensor(), dtype));
  if (x.size() > 3) o.bias = ScoreBias(x[3]);
  const Tensor y = way == Way::kFused       ? attention(x[0], x[1], x[2], o)
                   : way == Way::kComposite ? attention_with_weights(x[0], x[1], x[2], o).output
                                            : by_einsum(x[0], x[1], x[2], o);
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
  // A gradient may be constant: of v alone, where one key is all there is.
  if (!along.needs_grad()) return results;
  for (const Tensor& d : grad(along, leaves, {.allow_unused = true})) results.push_back(d);
  return results;
}

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> from) {
  return *(from.begin() + random() % from.size());
}

Call draw(std::mt19937& random) {
  using I = std::int64_t;
  const I b = pick<I>(random, {1, 2, 3}), h = pick<I>(random, {1, 2, 3}),
          tq = pick<I>(random, {2, 3, 5, 16, 33, 50}), tk = pick<I>(random, {2, 3, 5, 16, 33, 50}),
          d = pick<I>(random, {1, 3, 8, 32}), dv = pick<I>(random, {1, 3, 8, 33});
  Generator g(random());
  Call c;
  // Leading axes: all there, one shared, or missing where another has them.
  const auto lead = [&] {
    switch (random() % 6) {
      case 0:
        return Shape{1, h};
      case 1:
        return Shape{b, 1};
      case 2:
        return Shape{h};
      default:
        return Shape{b, h};
    }
  };
  const auto add = [&](Shape shape, const char* name) {
    c.text += std::string(" ") + name + "[";
    for (int i = 0; i < shape.rank(); ++i) c.text += std::to_string(shape[i]) + " ";
    c.text += "]";
    Dims axes;
    if (shape.rank() == 4 && random() % 2) {  // stored [B, T, H, d], as projections come
      shape = {shape[0], shape[2], shape[1], shape[3]};
      axes = {0, 2, 1, 3};
    } else if (shape.rank() >= 2 && random() % 4 == 0) {  // or its last axis not adjacent
      const int r = shape.rank();
      std::swap(shape[r - 1], shape[r - 2]);
      for (int i = 0; i < r; ++i) axes.push_back(i);
      std::swap(axes[r - 1], axes[r - 2]);
    }
    c.inputs.push_back(to(randn(shape, float32, g), float64));
    c.axes.push_back(axes);
  };
  const auto with_rows = [](Shape shape, I rows, I columns) {
    shape.push_back(rows), shape.push_back(columns);
    return shape;
  };
  add(with_rows({b, h}, tq, d), "q");
  add(with_rows(lead(), tk, d), "k");
  add(with_rows(lead(), tk, dv), "v");
  AttentionOptions& o = c.options;
  switch (random() % 4) {
    case 0:
      add({b, h, tq, tk}, "bias");
      break;
    case 1:
      add({h, 1, tk}, "bias");
      break;
    case 2:
      o.bias = ScoreBias::alibi(h, tq, tk, float64), c.text += " alibi";
      break;
    default:
      break;
  }
  o.causal = random() % 2;
  o.alignment = pick(random, {CausalAlignment::kBottomRight, CausalAlignment::kTopLeft});
  o.fully_masked = pick(random, {FullyMasked::kZero, FullyMasked::kZero, FullyMasked::kUniform});
  if (random() % 3 == 0) o.scale = pick(random, {1.0, -0.4, 0.05});
  if (random() % 4 == 0) o.dropout = pick(random, {0.2, 0.6});
  switch (random() % 6) {
    case 0: {
      std::vector<I> lengths;
      for (I i = 0; i < b; ++i) lengths.push_back(I(random() % std::size_t(tk + 1)));
      o.keep = KeepMask::padding(lengths, tk), c.text += " padding";
      break;
    }
    case 1:
      o.keep = KeepMask::sliding_window(tq, tk, pick<I>(random, {1, 2, 7})), c.text += " window";
      break;
    case 2:
      o.keep = KeepMask(bernoulli(0.5, {b, h, tq, tk}, g)), c.text += " random";
      break;
    case 3:
      o.keep = KeepMask(bernoulli(0.7, {h, tq, tk}, g)) & !KeepMask(bernoulli(0.2, {tk}, g)),
      c.text += " random and not";
      break;
    default:
      break;
  }
  c.text += o.causal ? " causal" : "";
  c.text += o.fully_masked == FullyMasked::kUniform ? " uniform" : "";
  c.text += o.dropout > 0 ? " dropout" : "";
  return c;
}

double largest(const Tensor& x) { return x.numel() ? max(abs(x)).item() : 0; }
double distance(const Tensor& a, const Tensor& b) {
  return largest(to(a, float64) - to(b, float64));
}

// Of the results from `begin` to `end`: a gradient that is 0 by luck of a mask, or of one key,
// is measured by the others'.
double largest_of(const std::vector<Tensor>& results, std::size_t begin, std::size_t end) {
  double most = 0;
  for (std::size_t i = begin; i < end; ++i) most = std::max(most, largest(results[i]));
  return most;
}

TEST_CASE("B9 B11 B22 B23: fused, composite and einsums agree in float64, at orders 1 and 2") {
  std::mt19937 random(1);
  for (int i = 0; i < kCalls; ++i) {
    const Call c = draw(random);
    CAPTURE(i, c.text);
    const auto want = run(c, Way::kEinsum, float64, true);
    const std::size_t n = c.inputs.size();
    for (const Way way : {Way::kFused, Way::kComposite}) {
      CAPTURE(int(way));
      const auto got = run(c, way, float64, true);
      REQUIRE(got.size() == want.size());
      const auto agree = [&](std::size_t begin, std::size_t end) {
        const double scale = largest_of(want, begin, end);
        for (std::size_t k = begin; k < end; ++k) {
          CAPTURE(k);
          REQUIRE(got[k].shape() == want[k].shape());
          CHECK(distance(got[k], want[k]) <= 1e-12 * scale);
        }
      };
      agree(0, 1), agree(1, n + 1), agree(n + 1, want.size());
      // Without a second derivative to come, the backward is the kernel's.
      const auto plain = run(c, way, float64);
      const double scale = largest_of(want, 1, n + 1);
      for (std::size_t k = 1; k <= n; ++k) CHECK(distance(plain[k], want[k]) <= 1e-12 * scale);
    }
  }
}

TEST_CASE("in float32 the fused kernel errs no more than 4 times as much as the composite") {
  std::mt19937 random(2);
  int compared = 0;
  for (int i = 0; compared < kCalls; ++i) {
    const Call c = draw(random);
    CAPTURE(i, c.text);
    const auto exact = run(c, Way::kComposite, float64), single = run(c, Way::kComposite, float32);
    if (exact[0].numel() < 100) continue;  // the error of a few numbers is luck
    ++compared;
    for (const Way way : {Way::kFused, Way::kEinsum}) {
      const auto got = run(c, way, float32);
      // Of the output, then of all gradients. A bias that a row's keys share is not drawn: its
      // gradient is 0 but for rounding (fused_attention_test.cpp bounds that).
      for (const auto& [begin, end] :
           {std::pair<std::size_t, std::size_t>{0, 1}, {1, exact.size()}}) {
        CAPTURE(int(way), begin);
        double own = 0x1p-24 * largest_of(exact, begin, end),
               error = 0;  // exact by luck: one rounding
        for (std::size_t k = begin; k < end; ++k) {
          own = std::max(own, distance(single[k], exact[k]));
          error = std::max(error, distance(got[k], exact[k]));
        }
        CHECK(error <= 4 * own);
      }
    }
  }
}

TEST_CASE("B12: NaN in keys and values that nobody may read changes no bit, in every call drawn") {
  std::mt19937 random(3);
  std::int64_t unread_keys = 0;
  for (int i = 0; i < kCalls; ++i) {
    Call c = draw(random);
    if (!c.options.keep.defined()) continue;
    CAPTURE(i, c.text);
    const Tensor q = arranged(c.inputs[0], c.axes[0]);
    const std::int64_t tq = q.size(2), tk = arranged(c.inputs[1], c.axes[1]).size(-2);
    Tensor keep = c.options.keep.tensor();
    if (c.options.causal)
      keep = logical_and(keep, KeepMask::causal(tq, tk, c.options.alignment).tensor());
    if (c.options.fully_masked == FullyMasked::kUniform)  // a row of nothing reads all
      keep = logical_or(keep, logical_not(any(keep, {-1}, true)));
    // Of any query, head and sequence.
    while (keep.rank() < 4) keep = unsqueeze(keep, 0);
    keep = expand(keep, {keep.size(0), keep.size(1), tq, tk});
    const Tensor unread = logical_not(any(keep, {0, 1, 2}));  // [Tk]
    unread_keys += std::int64_t(sum(to(unread, float64)).item());
    Call dirty = c;
    for (const std::size_t k : {1u, 2u}) {
      const Tensor clean = arranged(c.inputs[k], c.axes[k]);
      const Tensor poisoned =
          masked_fill(clean, unsqueeze(unread, 1), k == 1 ? std::nan("") : kInf);
      dirty.inputs[k] = poisoned, dirty.axes[k] = {};
      c.inputs[k] = contiguous(clean), c.axes[k] = {};
    }
    for (const Way way : {Way::kFused, Way::kComposite})
      for (const DType dtype : {float32, float64}) {
        const auto want = run(c, way, dtype), got = run(dirty, way, dtype);
        for (std::size_t k = 0; k < want.size(); ++k) CHECK(same_bits(want[k], got[k]));
      }
  }
  CHECK(unread_keys > 100);
}

TEST_CASE("leading axes broadcast: notebook 4's Q [3, 8, 4] and K [3, 3, 8, 4]") {
  Generator g(1);
  const Tensor q = randn({3, 8, 4}, float64, g), k = randn({3, 3, 8, 4}, float64, g);
  const Tensor y = attention(q, k, k), z = attention_with_weights(q, k, k).output;
  CHECK(y.shape() == Shape{3, 3, 8, 4});
  for (std::int64_t b = 0; b < 3; ++b)
    for (std::int64_t h = 0; h < 3; ++h) {
      const Tensor keys = select(select(k, 0, b), 0, h);
      const Tensor one = attention(select(q, 0, h), keys, keys);
      CHECK(allclose(select(select(y, 0, b), 0, h), one, 0, 1e-14));
      CHECK(allclose(select(select(z, 0, b), 0, h), one, 0, 1e-14));
    }
}

TEST_CASE("B11: a row that may read nothing: zero, uniform or an error, by choice") {
  Generator g(1);
  const Tensor q = randn({2, 3, 4}, float64, g).requires_grad(),
               k = randn({2, 5, 4}, float64, g).requires_grad(),
               v = randn({2, 5, 4}, float64, g).requires_grad();
  Tensor bits = full({2, 3, 5}, 1, bool8);
  bits = logical_and(bits, ne(unsqueeze(arange(3), 1), 1.0));  // row 1 of each
  const KeepMask keep(bits);
  const auto with = [&](FullyMasked rule) {
    return attention(q, k, v, {.keep = keep, .fully_masked = rule});
  };
  CHECK(largest(select(with(FullyMasked::kZero), 1, 1)) == 0);
  const Tensor uniform = with(FullyMasked::kUniform);
  CHECK(allclose(select(uniform, 1, 1), mean(v, {1}), 1e-15, 1e-15));
  // What a finite sentinel does: the same weights, to which no score contributes.
  const auto d = grad(sum(select(uniform, 1, 1) * 2.0), {q, k, v});
  CHECK(largest(d[0]) == 0);
  CHECK(largest(d[1]) == 0);
  CHECK(values(d[2]) == values(full({2, 5, 4}, 0.4, float64)));
  CHECK(allclose(select(uniform, 1, 2), select(with(FullyMasked::kZero), 1, 2), 1e-14, 1e-14));
  const std::string error =
      "attention: query [0, 1] of [..., Tq] = [2, 3] may read no key; unmask one for it, or choose "
      "FullyMasked::kZero or kUniform";
  CHECK_THROWS_AS(with(FullyMasked::kError), ValueError);
  CHECK_THROWS_WITH(with(FullyMasked::kError), error);
  CHECK_THROWS_WITH(
      attention_with_weights(q, k, v, {.keep = keep, .fully_masked = FullyMasked::kError}), error);
  CHECK_NOTHROW(attention(q, k, v, {.fully_masked = FullyMasked::kError}));
}

TEST_CASE("B11: a row is fully masked when its largest score is -inf, whichever mask did it") {
  // Key 1 is hidden from all by the mask, key 0 from query 0 by the bias.
  const Tensor q = ones({2, 3}, float64), k = ones({2, 3}, float64);
  const Tensor v = from_data(std::vector<double>{1, 5}, {2, 1}).requires_grad();
  const KeepMask keep(from_data(std::vector<bool>{true, false}, {1, 2}));
  const Tensor bias = tensor({{-kInf, 0}, {0, 0}}, float64);
  const auto with = [&](FullyMasked rule) {
    return attention(q, k, v, {.keep = keep, .bias = ScoreBias(bias), .fully_masked = rule});
  };
  CHECK(values(with(FullyMasked::kZero)) == std::vector<double>{0, 1});
  const Tensor uniform = with(FullyMasked::kUniform);
  CHECK(values(uniform) == std::vector<double>{3, 1});
  CHECK(values(grad(sum(uniform), {v})[0]) == std::vector<double>{1.5, 0.5});
  CHECK_THROWS_WITH(with(FullyMasked::kError), Contains("query [0] of [..., Tq] = [2]"));
}

TEST_CASE("B11: without keys every row is fully masked") {
  const Tensor q = ones({2, 3}, float64), k = ones({0, 3}, float64), v = ones({0, 4}, float64);
  for (const FullyMasked rule : {FullyMasked::kZero, FullyMasked::kUniform})
    CHECK(values(attention(q, k, v, {.fully_masked = rule})) == std::vector<double>(8, 0));
  CHECK_THROWS_WITH(attention(q, k, v, {.fully_masked = FullyMasked::kError}),
                    Contains("query [0] of [..., Tq] = [2]"));
  CHECK(attention(slice(q, 0, 0, 0), k, v, {.fully_masked = FullyMasked::kError}).shape() ==
        Shape{0, 4});
}

}  // namespace
