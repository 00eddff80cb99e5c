// Tests of the fused attention kernel: reproducible bits, skipped blocks, memory and observers.
// attention_matrix_test.cpp compares the kernel's results with attention made of public ops.
#include "autograd/autograd.h"
#include "autograd/base/pool.h"
#include "tests/support/attention_calls.h"
#include "tests/support/simd_targets.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;

// Returns calls that together cover each path through the kernel, for example chunks of queries,
// and biases that heads or rows share.
std::vector<Call> calls_for_each_path() {
  Generator g(4);
  std::vector<Call> calls;
  const auto add = [&](const Shape& lead, Index t, const AttentionOptions& o,
                       const Shape& bias = {}) {
    calls.push_back(plain_call(lead, t, t + 5, 8, 7, o, bias, g));
  };
  add({1, 1}, 700, {.causal = true});
  add({1, 3}, 300, {.keep = KeepMask(bernoulli(0.5, {300, 305}, g)), .dropout = 0.3});
  add({4, 3}, 60, {.causal = true, .dropout = 0.3});
  add({2, 2}, 300, {.causal = true}, {300, 305});
  add({2, 2}, 300, {.dropout = 0.1}, {2, 1, 305});
  add({1, 1}, 300, {}, {300, 1});
  add({1, 2}, 700, {.causal = true, .window = 40, .dropout = 0.3});
  add({2, 1, 3}, 60, {.keep = KeepMask(bernoulli(0.5, {2, 1, 1, 60, 65}, g)), .dropout = 0.3});
  return calls;
}

TEST_CASE("fused attention has the same bits at any number of threads") {
  const Threads restored_at_the_end;
  for (const Call& c : calls_for_each_path())
    for (const DType dtype : {float32, float64}) {
      set_num_threads(1);
      const auto one = run(c, Implementation::kFused, dtype);
      for (const int threads : {2, 3, 8}) {
        CAPTURE(c.scores, threads);
        set_num_threads(threads);
        const auto many = run(c, Implementation::kFused, dtype);
        for (std::size_t k = 0; k < one.size(); ++k) CHECK(same_bits(one[k], many[k]));
      }
    }
}

TEST_CASE("observers of fused attention receive the values of the composite and change no bit") {
  const auto of_scores = [](std::size_t k) {
    return std::string_view(RecordedTensors::kNames[k]).find("scores' gradient") !=
           std::string_view::npos;
  };
  std::mt19937 random(5);
  std::vector<Call> calls = calls_for_each_path();
  while (calls.size() < 50)
    if (const Call c = draw_call(random); c.fits_kernel()) calls.push_back(c);
  for (Call& c : calls) {
    CAPTURE(c.text, c.scores);
    const auto alone = run(c, Implementation::kFused, float32);
    RecordedTensors fused, composite, single;
    c.options.hooks = &single.hooks;
    const auto watched = run(c, Implementation::kFused, float32);
    for (std::size_t k = 0; k < alone.size(); ++k) CHECK(same_bits(alone[k], watched[k]));
    for (const Tensor& x : single.x) CHECK(x.shape() == c.scores);
    c.options.hooks = &fused.hooks;
    run(c, Implementation::kFused, float64);
    c.options.hooks = &composite.hooks;
    run(c, Implementation::kComposite, float64);
    for (std::size_t k = 0; k < std::size(RecordedTensors::kNames); ++k) {
      CAPTURE(RecordedTensors::kNames[k]);
      const Tensor got = fused.x[k], want = composite.x[k];
      CHECK(values(eq(got, -kInf)) == values(eq(want, -kInf)));
      const auto finite = [&](const Tensor& x) { return masked_fill(x, eq(want, -kInf), 0); };
      // If a query reads only one key, the gradient of its score is 0. The computed gradient is
      // then a rounding error, whose size depends on the gradient of the pattern.
      const double scale =
          std::max(largest(finite(want)), of_scores(k) ? largest(composite.pattern_grad()) : 0);
      CHECK(distance(finite(got), finite(want)) <= 1e-12 * scale);
      CHECK(distance(finite(to(single.x[k], float64)), finite(want)) <= 1e-4 * scale);
    }
  }
}

TEST_CASE("observers receive the leading axes of the arguments, and gradients under create_graph") {
  Generator g(6);
  for (const Shape& lead : {Shape{}, Shape{3}, Shape{1, 1, 2}}) {
    const auto draw_rows = [&](Index rows) {
      Shape shape = lead;
      shape.push_back(rows), shape.push_back(4);
      return randn(shape, float64, g).requires_grad_();
    };
    const Tensor q = draw_rows(5), k = draw_rows(6), v = draw_rows(6);
    Shape scores = lead;
    scores.push_back(5), scores.push_back(6);
    RecordedTensors first, second;
    const Tensor y = attention(q, k, v, {.causal = true, .hooks = &first.hooks});
    grad(sum(y * y), {q}, {});
    for (const Tensor& x : first.x) CHECK(x.shape() == scores);
    const Tensor z = attention(q, k, v, {.causal = true, .hooks = &second.hooks});
    grad(sum(z * z), {q}, {.create_graph = true});
    const Tensor masked = eq(first.scores(), -kInf);
    for (std::size_t i = 0; i < std::size(first.x); ++i)
      CHECK(allclose(masked_fill(first.x[i], masked, 0), masked_fill(second.x[i], masked, 0), 1e-12,
                     1e-12));
  }
}

TEST_CASE("a query with one key has weight exactly 1, and its score has gradient exactly 0") {
  for_each_simd_target([] {
    for (const DType dtype : {float32, float64})
      for (const bool by_mask : {false, true}) {
        Generator g(8);
        const auto leaf = [&](Index d) { return randn({2, 3, 9, d}, dtype, g).requires_grad_(); };
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

// Returns the mask as a bias of 0 and -inf. This bias has the effect of the mask, but the kernel
// does not skip blocks.
Tensor as_bias(const KeepMask& keep, DType dtype) {
  return masked_fill(zeros(keep.tensor().shape(), dtype), logical_not(keep.tensor()), -kInf);
}

// Returns a random mask in which patches of 70 x 100 entries are equal. The patches do not align
// with the tiles of the kernel. Some rows are fully masked.
KeepMask patches(Index tq, Index tk, Generator& g) {
  const Tensor coarse = bernoulli(0.2, {(tq + 69) / 70, 1, (tk + 99) / 100, 1}, g);
  const Shape fine{coarse.size(0), 70, coarse.size(2), 100};
  const Tensor all = reshape(expand(coarse, fine), {fine[0] * 70, fine[2] * 100});
  return KeepMask(contiguous(slice(slice(all, 0, 0, tq), 1, 0, tk)));
}

TEST_CASE("skipping blocks that a window or a mask hides changes no bit") {
  for_each_simd_target([] {
    Generator g(9);
    const auto same = [&](const Call& c, const AttentionOptions& skips, DType dtype) {
      const auto want = run(c, Implementation::kFused, dtype);
      Call other = c;
      other.options = skips;
      const auto got = run(other, Implementation::kFused, dtype);
      for (std::size_t k = 0; k < want.size(); ++k) CHECK(same_bits(want[k], got[k]));
    };
    for (const bool causal : {false, true})
      for (const Index window : {1, 2, 47, 48, 49, 95, 383, 384, 385, 820}) {
        if (kSanitized && window != 1 && window != 48 && window != 385) continue;
        const Index t = 820;  // 18 tiles of rows and 3 blocks of keys
        const DType dtype = window % 2 == 0 ? float64 : float32;
        CAPTURE(causal, window, dtype);
        const KeepMask keep = KeepMask::sliding_window(t, t, window);
        const AttentionOptions base{.causal = causal, .dropout = window < 48 ? 0.3 : 0};
        AttentionOptions by_bias = base, by_mask = base, by_number = base;
        by_bias.bias = ScoreBias(as_bias(keep, float64));
        by_mask.keep = keep, by_number.window = window;
        const Call c = plain_call({1, window == 49 ? 8 : 1}, t, t, 16, 16, by_bias, {}, g);
        same(c, by_mask, dtype), same(c, by_number, dtype);
      }
    for (int i = 0; i < 6; ++i) {
      CAPTURE(i);
      KeepMask keep = patches(500, 900, g);
      if (i % 2 == 1) keep = keep | KeepMask(from_data(std::vector<bool>{true}, {1, 1}));
      // Masks row 60 i fully.
      keep = keep & !KeepMask(eq(unsqueeze(arange(500), 1), double(60 * i)));
      AttentionOptions by_bias{.causal = i >= 3}, by_mask = by_bias;
      by_bias.bias = ScoreBias(as_bias(keep, float64)), by_mask.keep = keep;
      same(plain_call({2}, 500, 900, 8, 5, by_bias, {}, g), by_mask, i < 3 ? float32 : float64);
    }
  });
}

TEST_CASE("a few queries have the same bits as in a call with all queries") {
  Generator g(6);
  for_each_simd_target([&] {
    for (const DType dtype : {float32, float64})
      for (const Index t : {15, 16, 17, 40, 400, 1060})
        for (const Index n : {1, 3, 8})
          for (const Index window : {0, 9}) {
            CAPTURE(t, n, window);
            const AttentionOptions causal{.causal = true, .window = window};
            const Tensor q = randn({1, 2, t, 12}, dtype, g), k = randn({1, 2, t, 12}, dtype, g),
                         v = randn({1, 2, t, 32}, dtype, g);
            const Tensor last = attention(slice(q, 2, t - n, t), k, v, causal);
            CHECK(same_bits(last, slice(attention(q, k, v, causal), 2, t - n, t)));
          }
  });
}

// Returns the peak memory of a forward and a backward pass in bytes, minus the memory that was in
// use before.
double peak_bytes(Index t, AttentionOptions o) {
  const auto leaf = [&] { return randn({1, 2, t, 8}).requires_grad_(); };
  const Tensor q = leaf(), k = leaf(), v = leaf(), g = randn({1, 2, t, 8});
  const Tensor bias = randn({2, 1, t}).requires_grad_();
  o.keep = KeepMask::padding(std::vector<Index>{t - 3}, t);
  o.bias = ScoreBias(bias);
  const auto live = pool_stats().live_bytes;
  reset_peak_bytes();
  grad(attention(q, k, v, o), {q, k, v, bias}, {.grad_output = g});
  return double(pool_stats().peak_bytes - live);
}

TEST_CASE("the memory of fused attention is linear in the length") {
  if (skips(kSanitized, "takes half a minute with a sanitizer")) return;
  for (const bool causal : {false, true}) {
    const AttentionOptions o{.causal = causal, .dropout = 0.2};
    const double short_one = peak_bytes(512, o), long_one = peak_bytes(4096, o);
    INFO(short_one << " bytes at 512, " << long_one << " at 4096");
    // The length grows by a factor of 8. The scratch memory for blocks does not depend on the
    // length.
    CHECK(long_one <= 8.5 * short_one + (1 << 20));
    CHECK(long_one < 4.0 * 4096 * 4096);  // the scores of one head would need 64 MB
  }
}

}  // namespace
