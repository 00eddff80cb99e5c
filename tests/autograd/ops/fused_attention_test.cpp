// The fused kernel of attention: its bits, its memory, and who watches it. That it computes what
// the composite does: attention_matrix_test.cpp.
#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "autograd/graph/inplace.h"
#include "tests/support/attention_calls.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;

// Calls that take each way through the kernel: chunks of queries, biases that heads or rows share.
std::vector<Call> ways() {
  Generator g(4);
  std::vector<Call> calls;
  const auto add = [&](const Shape& lead, std::int64_t t, const AttentionOptions& o,
                       const Shape& bias = {}) {
    calls.push_back(plain_call(lead, t, t + 5, 8, 7, o, bias, g));
  };
  add({1, 1}, 700, {.causal = true});
  add({1, 3}, 300, {.keep = KeepMask(bernoulli(0.5, {300, 305}, g)), .dropout = 0.3});
  add({4, 3}, 60, {.causal = true, .dropout = 0.3});
  add({2, 2}, 300, {.causal = true}, {300, 305});
  add({2, 2}, 300, {.dropout = 0.1}, {2, 1, 305});
  add({1, 1}, 300, {}, {300, 1});
  return calls;
}

TEST_CASE("fused attention has the same bits at any number of threads") {
  const int before = num_threads();
  for (const Call& c : ways())
    for (const DType dtype : {float32, float64}) {
      set_num_threads(1);
      const auto one = run(c, Way::kFused, dtype);
      for (const int threads : {2, 3, 8}) {
        CAPTURE(c.scores, threads);
        set_num_threads(threads);
        const auto many = run(c, Way::kFused, dtype);
        for (std::size_t k = 0; k < one.size(); ++k) CHECK(same_bits(one[k], many[k]));
      }
    }
  set_num_threads(before);
}

TEST_CASE("who watches fused attention sees what the composite computes, and changes no bit") {
  const auto of_scores = [](std::size_t k) {
    return std::string_view(Seen::kNames[k]).find("scores' gradient") != std::string_view::npos;
  };
  std::mt19937 random(5);
  std::vector<Call> calls = ways();
  while (calls.size() < 50)
    if (const Call c = draw_call(random); c.fits_kernel()) calls.push_back(c);
  for (Call& c : calls) {
    CAPTURE(c.text, c.scores);
    const auto alone = run(c, Way::kFused, float32);
    Seen fused, composite, single;
    c.options.watch = single.watch();
    const auto watched = run(c, Way::kFused, float32);
    for (std::size_t k = 0; k < alone.size(); ++k) CHECK(same_bits(alone[k], watched[k]));
    for (const Tensor& x : single.x) CHECK(x.shape() == c.scores);
    c.options.watch = fused.watch();
    run(c, Way::kFused, float64);
    c.options.watch = composite.watch();
    run(c, Way::kComposite, float64);
    for (std::size_t k = 0; k < std::size(Seen::kNames); ++k) {
      CAPTURE(Seen::kNames[k]);
      const Tensor got = fused.x[k], want = composite.x[k];
      CHECK(values(eq(got, -kInf)) == values(eq(want, -kInf)));
      const auto finite = [&](const Tensor& x) { return masked_fill(x, eq(want, -kInf), 0); };
      // A query with one key has no gradient of scores: what is found is the rounding of dA.
      const double scale =
          std::max(largest(finite(want)), of_scores(k) ? largest(composite.pattern_grad()) : 0);
      CHECK(distance(finite(got), finite(want)) <= 1e-12 * scale);
      CHECK(distance(finite(to(single.x[k], float64)), finite(want)) <= 1e-4 * scale);
    }
  }
}

TEST_CASE("watching sees the arguments' leading axes, and gradients of a differentiable backward") {
  Generator g(6);
  for (const Shape& lead : {Shape{}, Shape{3}, Shape{1, 1, 2}}) {
    const auto draw_rows = [&](std::int64_t rows) {
      Shape shape = lead;
      shape.push_back(rows), shape.push_back(4);
      return randn(shape, float64, g).requires_grad();
    };
    const Tensor q = draw_rows(5), k = draw_rows(6), v = draw_rows(6);
    Shape scores = lead;
    scores.push_back(5), scores.push_back(6);
    Seen first, second;
    const Tensor y = attention(q, k, v, {.causal = true, .watch = first.watch()});
    grad(sum(y * y), {q}, {});
    for (const Tensor& x : first.x) CHECK(x.shape() == scores);
    const Tensor z = attention(q, k, v, {.causal = true, .watch = second.watch()});
    grad(sum(z * z), {q}, {.create_graph = true});
    const Tensor masked = eq(first.scores(), -kInf);
    for (std::size_t i = 0; i < std::size(first.x); ++i)
      CHECK(allclose(masked_fill(first.x[i], masked, 0), masked_fill(second.x[i], masked, 0), 1e-12,
                     1e-12));
  }
}

TEST_CASE("a query with one key weighs it 1, and its score has gradient 0, exactly") {
  for_each_simd_target([] {
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
  if (kSanitized) return;  // it counts the same bytes there, for half a minute
  for (const bool causal : {false, true}) {
    const AttentionOptions o{.causal = causal, .dropout = 0.2};
    const double short_one = peak_bytes(512, o), long_one = peak_bytes(4096, o);
    INFO(short_one << " bytes at 512, " << long_one << " at 4096");
    CHECK(long_one <= 8.5 * short_one + (1 << 20));  // scratch of a block is the same for both
    CHECK(long_one < 4.0 * 4096 * 4096);             // one head's scores alone are 64 MB
  }
}

}  // namespace
