// Fused attention against its definition, the composite of public ops: over generated sizes, masks,
// biases and dropout, on every SIMD target; then its bits, its memory, and who watches it.
#include <cmath>
#include <random>

#include "autograd/engine.h"
#include "autograd/graph.h"
#include "autograd/inplace.h"
#include "autograd/ops.h"
#include "autograd/parallel.h"
#include "autograd/pool.h"
#include "tests/catch.h"
#include "tests/layouts.h"
#include "tests/simd_targets.h"

namespace {

using namespace heed::autograd;
using testing::same_bits;
using testing::values;

struct Case {
  std::int64_t b, h, tq, tk, d, dv;
  AttentionOptions options = {};
  Tensor q = {}, k = {}, v = {}, bias = {};  // float32; bias may be undefined
  std::string text = {};

  std::vector<Tensor> inputs(DType dtype) const {
    std::vector<Tensor> xs;
    for (const Tensor& x : {q, k, v, bias})
      if (x.defined()) xs.push_back(to(x.detach(), dtype).detach().requires_grad());
    return xs;
  }
};

// The output, then the gradients of q, k, v and bias for a fixed cotangent.
std::vector<Tensor> run(const Case& c, DType dtype, bool fused) {
  const std::vector<Tensor> xs = c.inputs(dtype);
  Generator key(11), cotangent(12);
  AttentionOptions o = c.options;
  o.generator = &key;
  if (xs.size() > 3) o.bias = ScoreBias(xs[3]);
  const Tensor y = fused ? attention(xs[0], xs[1], xs[2], o)
                         : attention_with_weights(xs[0], xs[1], xs[2], o).output;
  if (y.numel() > 0) CHECK((y.node()->op()->name() == "attention") == fused);
  const Tensor g = to(randn(y.shape(), float32, cotangent), dtype);
  std::vector<Tensor> all = grad(y, xs, {.grad_output = g});
  all.insert(all.begin(), y);
  return all;
}

double largest(const Tensor& x) { return x.numel() ? max(abs(x)).item() : 0; }
double distance(const Tensor& a, const Tensor& b) {
  return largest(to(a, float64) - to(b, float64));
}

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> from) {
  return *(from.begin() + random() % from.size());
}

Case draw(std::mt19937& random) {
  const std::initializer_list<std::int64_t> lengths = {1, 2, 3, 7, 16, 33, 47, 48, 49, 97, 130};
  const std::initializer_list<std::int64_t> widths = {1, 2, 3, 5, 8, 16, 17, 33, 64};
  Case c{.b = pick<std::int64_t>(random, {1, 2, 3}),
         .h = pick<std::int64_t>(random, {1, 2, 3}),
         .tq = pick(random, lengths),
         .tk = pick(random, lengths),
         .d = pick(random, widths),
         .dv = pick(random, widths)};
  if (random() % 8 == 0) c.tk = 400;  // more than one block of keys
  if (random() % 8 == 0) c.tq = 300;  // more than one chunk of queries
  if (random() % 40 == 0) c.d = 256;
  Generator g(random());
  c.q = randn({c.b, c.h, c.tq, c.d}, float32, g);
  c.k = randn({c.b, c.h, c.tk, c.d}, float32, g);
  c.v = randn({c.b, c.h, c.tk, c.dv}, float32, g);
  c.options.causal = random() % 2 == 0;
  if (random() % 3 == 0) c.options.scale = pick(random, {0.1, 1.0, -0.5});
  const Shape masks[] = {{},
                         {c.b, 1, 1, c.tk},
                         {c.tq, c.tk},
                         {c.tk},
                         {c.b, c.h, c.tq, c.tk},
                         {c.h, 1, c.tk},
                         {c.h, c.tq, 1}};
  if (const Shape& shape = masks[random() % 7]; shape.rank() > 0) {
    const double p = pick(random, {0.0, 0.2, 0.5, 0.9});
    c.options.keep = KeepMask(bernoulli(p, shape, g));
    c.text += ", keep " + std::to_string(p);
  }
  const Shape biases[] = {
      {},        {c.b, c.h, c.tq, c.tk}, {c.h, c.tq, c.tk}, {c.tq, c.tk},       {c.tk},
      {c.tq, 1}, {c.b, 1, 1, c.tk},      {c.h, 1, 1},       {c.b, c.h, 1, c.tk}};
  if (const Shape& shape = biases[random() % 9]; shape.rank() > 0)
    c.bias = randn(shape, float32, g);
  if (random() % 3 == 0) c.options.dropout = pick(random, {0.1, 0.5, 1.0});
  return c;
}

TEST_CASE("fused attention equals the composite, values and gradients, over generated calls") {
  testing::for_each_simd_target([] {
    std::mt19937 random(3);
    for (int i = 0; i < 240; ++i) {
      const Case c = draw(random);
      CAPTURE(i, c.b, c.h, c.tq, c.tk, c.d, c.dv, c.options.causal, c.options.dropout, c.text);
      const auto exact = run(c, float64, false), double_fused = run(c, float64, true);
      const auto single = run(c, float32, false), single_fused = run(c, float32, true);
      REQUIRE(exact.size() == double_fused.size());
      // Of all gradients together: with one key, or a bias that all keys share, some are 0.
      double of_gradients = 0;
      for (std::size_t k = 1; k < exact.size(); ++k)
        of_gradients = std::max(of_gradients, largest(exact[k]));
      for (std::size_t k = 0; k < exact.size(); ++k) {
        CAPTURE(k);
        const double scale = k == 0 ? largest(exact[0]) : of_gradients;
        CHECK(distance(double_fused[k], exact[k]) <= 1e-12 * scale);
        // A few roundings are allowed where the composite is exact by luck.
        CHECK(distance(single_fused[k], exact[k]) <=
              4 * distance(single[k], exact[k]) + 8 * 0x1p-24 * scale);
      }
    }
  });
}

// Calls that take each way through the kernel: chunks of queries, biases that heads or rows share.
std::vector<Case> ways() {
  std::mt19937 random(4);
  std::vector<Case> cases;
  const auto add = [&](std::int64_t b, std::int64_t h, std::int64_t t, const AttentionOptions& o,
                       const Shape& bias = {}) {
    Generator g(random());
    Case c{.b = b, .h = h, .tq = t, .tk = t + 5, .d = 8, .dv = 7, .options = o};
    c.q = randn({b, h, c.tq, c.d}, float32, g);
    c.k = randn({b, h, c.tk, c.d}, float32, g);
    c.v = randn({b, h, c.tk, c.dv}, float32, g);
    if (bias.rank() > 0) c.bias = randn(bias, float32, g);
    cases.push_back(c);
  };
  Generator g(1);
  add(1, 1, 700, {.causal = true});
  add(1, 3, 300, {.keep = KeepMask(bernoulli(0.5, {300, 305}, g)), .dropout = 0.3});
  add(4, 3, 60, {.causal = true, .dropout = 0.3});
  add(2, 2, 300, {.causal = true}, {300, 305});
  add(2, 2, 300, {.dropout = 0.1}, {2, 1, 305});
  add(1, 1, 300, {}, {300, 1});
  return cases;
}

TEST_CASE("fused attention has the same bits at any number of threads") {
  const int before = num_threads();
  for (const Case& c : ways())
    for (const DType dtype : {float32, float64}) {
      set_num_threads(1);
      const auto one = run(c, dtype, true);
      for (const int threads : {2, 3, 8}) {
        CAPTURE(c.b, c.h, c.tq, threads);
        set_num_threads(threads);
        const auto many = run(c, dtype, true);
        for (std::size_t k = 0; k < one.size(); ++k) CHECK(same_bits(one[k], many[k]));
      }
    }
  set_num_threads(before);
}

struct Seen {
  Tensor scores, pattern, dropped, scores_grad, pattern_grad;
  AttentionWatch watch() {
    const auto into = [](Tensor& at) { return [&at](const Tensor& x) { at = x; }; };
    return {into(scores), into(pattern), into(dropped), into(scores_grad), into(pattern_grad)};
  }
  std::vector<Tensor> all() const { return {scores, pattern, dropped, scores_grad, pattern_grad}; }
};

TEST_CASE("who watches fused attention sees what the composite computes, and changes no bit") {
  std::mt19937 random(5);
  std::vector<Case> cases = ways();
  for (int i = 0; i < 40; ++i) cases.push_back(draw(random));
  for (Case& c : cases) {
    CAPTURE(c.b, c.h, c.tq, c.tk, c.d, c.dv, c.options.causal, c.options.dropout, c.text);
    const auto alone = run(c, float32, true);
    Seen fused, composite, single;
    c.options.watch = single.watch();
    const auto watched = run(c, float32, true);
    for (std::size_t k = 0; k < alone.size(); ++k) CHECK(same_bits(alone[k], watched[k]));
    for (const Tensor& x : single.all()) CHECK(x.shape() == Shape{c.b, c.h, c.tq, c.tk});
    c.options.watch = fused.watch();
    run(c, float64, true);
    c.options.watch = composite.watch();
    run(c, float64, false);
    for (std::size_t k = 0; k < 5; ++k) {
      CAPTURE(k);
      const Tensor got = fused.all()[k], want = composite.all()[k];
      if (k == 0) CHECK(values(eq(got, -kInf)) == values(eq(want, -kInf)));
      const auto finite = [&](const Tensor& x) { return masked_fill(x, eq(want, -kInf), 0); };
      // A query with one key has no gradient of scores: what is found is the rounding of dA.
      const double scale =
          std::max(largest(finite(want)), k == 3 ? largest(composite.pattern_grad) : 0);
      CHECK(distance(finite(got), finite(want)) <= 1e-12 * scale);
      CHECK(distance(finite(to(single.all()[k], float64)), finite(want)) <= 1e-4 * scale);
    }
  }
}

TEST_CASE("watching sees the arguments' leading axes, and gradients of a differentiable backward") {
  Generator g(6);
  for (const Shape& lead : {Shape{}, Shape{3}, Shape{1, 1, 2}}) {
    const auto draw_of = [&](std::int64_t rows) {
      Shape shape = lead;
      shape.push_back(rows), shape.push_back(4);
      return randn(shape, float64, g).requires_grad();
    };
    const Tensor q = draw_of(5), k = draw_of(6), v = draw_of(6);
    Shape scores = lead;
    scores.push_back(5), scores.push_back(6);
    Seen first, second;
    const Tensor y = attention(q, k, v, {.causal = true, .watch = first.watch()});
    grad(sum(y * y), {q}, {});
    for (const Tensor& x : first.all()) CHECK(x.shape() == scores);
    const Tensor z = attention(q, k, v, {.causal = true, .watch = second.watch()});
    grad(sum(z * z), {q}, {.create_graph = true});
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(allclose(masked_fill(first.all()[i], eq(first.scores, -kInf), 0),
                     masked_fill(second.all()[i], eq(first.scores, -kInf), 0), 1e-12, 1e-12));
  }
}

TEST_CASE("NaN in keys and values that no query may read changes no bit, whatever the mask") {
  std::mt19937 random(7);
  int unread_keys = 0;
  for (int i = 0; i < 60; ++i) {
    Case c = draw(random);
    if (!c.options.keep.defined()) continue;
    KeepMask mask = c.options.keep;
    if (c.options.causal) mask = mask & KeepMask::causal(c.tq, c.tk);
    const Tensor read = expand(any(mask.tensor(), {-2}, true), {c.b, c.h, 1, c.tk});
    const Tensor unread = mT(logical_not(read));  // [B, H, Tk, 1]
    unread_keys += int(sum(to(unread, float64)).item());
    Case dirty = c;
    dirty.k = masked_fill(c.k, unread, std::nan(""));
    dirty.v = masked_fill(c.v, unread, -kInf);
    Seen clean_seen, dirty_seen;
    for (const DType dtype : {float32, float64}) {
      CAPTURE(i, c.b, c.h, c.tq, c.tk, c.options.causal, dtype, c.text);
      const auto want = run(c, dtype, true), got = run(dirty, dtype, true);
      for (std::size_t k = 0; k < want.size(); ++k) CHECK(same_bits(want[k], got[k]));
      for (const std::size_t k : {2u, 3u})  // dk, dv
        CHECK(largest(masked_fill(got[k], logical_not(unread), 0)) == 0);
      c.options.watch = clean_seen.watch(), dirty.options.watch = dirty_seen.watch();
      run(c, dtype, true), run(dirty, dtype, true);
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(same_bits(clean_seen.all()[k], dirty_seen.all()[k]));
      c.options.watch = dirty.options.watch = {};
    }
  }
  CHECK(unread_keys > 100);
}

TEST_CASE("a query with one key weighs it 1, and its score has gradient 0, exactly") {
  testing::for_each_simd_target([] {
    for (const DType dtype : {float32, float64})
      for (const bool by_mask : {false, true}) {
        Generator g(8);
        const auto leaf = [&](std::int64_t d) {
          return randn({2, 3, 9, d}, dtype, g).requires_grad();
        };
        const Tensor q = leaf(16), k = leaf(16), v = leaf(40);
        AttentionOptions o{.causal = !by_mask};
        if (by_mask) o.keep = KeepMask(tril_mask(9, 9));
        const Tensor y = attention(q, k, v, o);
        CHECK(same_bits(select(y, 2, 0), select(v, 2, 0)));
        const Tensor dq = grad(y, {q}, {.grad_output = randn(y.shape(), dtype, g)})[0];
        CHECK(largest(select(dq, 2, 0)) == 0);
        CHECK(largest(select(dq, 2, 1)) > 0);
      }
  });
}

TEST_CASE("a mask changed between forward and backward is an error, not a wrong gradient") {
  const Tensor q = randn({1, 1, 3, 2}).requires_grad();
  const Tensor keep = full({3, 3}, 1, bool8);
  const Tensor y = attention(q, q, q, {.keep = KeepMask(keep)});
  fill_(keep, 0);
  CHECK_THROWS_AS(grad(sum(y), {q}), Error);
}

// Bytes at the highest point of a forward and backward, beyond what was there before.
double peak_bytes(std::int64_t t, AttentionOptions o) {
  const auto leaf = [&] { return randn({1, 2, t, 8}).requires_grad(); };
  const Tensor q = leaf(), k = leaf(), v = leaf(), g = randn({1, 2, t, 8});
  const Tensor bias = randn({2, 1, t}).requires_grad();
  o.keep = KeepMask::padding(std::vector<std::int64_t>{t - 3}, t);
  o.bias = ScoreBias(bias);
  const auto live = pool_stats().live_bytes;
  reset_peak_bytes();
  grad(attention(q, k, v, o), {q, k, v, bias}, {.grad_output = g});
  return double(pool_stats().peak_bytes - live);
}

TEST_CASE("the memory of fused attention is linear in the length") {
  for (const bool causal : {false, true}) {
    const AttentionOptions o{.causal = causal, .dropout = 0.2};
    const double short_one = peak_bytes(512, o), long_one = peak_bytes(4096, o);
    INFO(short_one << " bytes at 512, " << long_one << " at 4096");
    CHECK(long_one <= 8.5 * short_one + (1 << 20));  // scratch of a block is the same for both
    CHECK(long_one < 4.0 * 4096 * 4096);             // one head's scores alone are 64 MB
  }
}

}  // namespace
