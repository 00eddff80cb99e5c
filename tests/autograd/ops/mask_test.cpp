// Tests of attention() and the softmax family with masks: masked places give exact zeros, and a NaN
// there changes nothing.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

Tensor bool_tensor(const std::vector<bool>& bits, const Shape& shape) {
  return from_data(bits, shape);
}

struct Qkv {
  Tensor q, k, v;
  Qkv(Index tq, Index tk, DType dtype = float64, std::uint64_t seed = 1) {
    Generator g(seed);
    q = randn({2, 3, tq, 4}, dtype, g).requires_grad_();
    k = randn({2, 3, tk, 4}, dtype, g).requires_grad_();
    v = randn({2, 3, tk, 5}, dtype, g).requires_grad_();
  }
  Tensor operator()(const AttentionOptions& options = {}) const {
    return attention(q, k, v, options);
  }
  std::vector<Tensor> gradients(const Tensor& y) const {
    Generator g(9);
    return grad(y, {q, k, v},
                {.grad_output = randn(y.shape(), y.dtype(), g), .retain_graph = true});
  }
};

bool all_finite(const Tensor& x) { return all(isfinite(x)).item() != 0; }

TEST_CASE("KeepMask: polarity, positions, window, padding, logic") {
  CHECK(values(KeepMask::causal(3, 3).tensor()) == V{1, 0, 0, 1, 1, 0, 1, 1, 1});
  // The last query reads all keys, whether there are more keys than
  // queries or fewer.
  CHECK(values(KeepMask::causal(2, 4).tensor()) == V{1, 1, 1, 0, 1, 1, 1, 1});
  CHECK(values(KeepMask::causal(3, 2).tensor()) == V{0, 0, 1, 0, 1, 1});
  // The window extends to both sides of the query's position, which is the last key that causal()
  // allows.
  CHECK(values(KeepMask::sliding_window(3, 3, 1).tensor()) == V{1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(values(KeepMask::sliding_window(2, 4, 2).tensor()) == V{0, 1, 1, 1, 0, 0, 1, 1});
  CHECK(ScoreBias::alibi(1, 2, 4, float64).tensor().at({0, 0, 0}) == -2 * std::exp2(-8));
  CHECK(values(KeepMask::sliding_window(3, 2, 2).tensor()) == V{1, 0, 1, 1, 1, 1});
  CHECK(values(KeepMask::sliding_window(2, 2, Index{1} << 62).tensor()) == V{1, 1, 1, 1});
  CHECK(values((KeepMask::sliding_window(1, 4, 2) & KeepMask::causal(1, 4)).tensor()) ==
        V{0, 0, 1, 1});
  const KeepMask padding = KeepMask::padding(std::vector<Index>{2, 0, 3}, 3);
  CHECK(padding.tensor().shape() == Shape{3, 1, 1, 3});
  CHECK(values(padding.tensor()) == V{1, 1, 0, 0, 0, 0, 1, 1, 1});
  const KeepMask a(bool_tensor({true, true, false, false}, {4})),
      b(bool_tensor({true, false, true, false}, {4}));
  CHECK(values((a & b).tensor()) == V{1, 0, 0, 0});
  CHECK(values((a | b).tensor()) == V{1, 1, 1, 0});
  CHECK(values((!a).tensor()) == V{0, 0, 1, 1});
  CHECK(!KeepMask().defined());
  CHECK((KeepMask() & a).tensor().is_same(a.tensor()));
  CHECK((a & KeepMask()).tensor().is_same(a.tensor()));
  CHECK(!(KeepMask() | a).defined());
  CHECK((padding & KeepMask::causal(3, 3)).tensor().shape() == Shape{3, 1, 3, 3});
}

// attention_matrix_test.cpp tests rows that are masked by a keep-mask or by causality.
TEST_CASE("rows that a hook masks fully have output 0, gradients 0 and no NaN") {
  const Tensor row1 =
      bool_tensor({true, true, false, false, false, false, true, false, true}, {3, 3});
  for (const DType dtype : {float32, float64}) {
    const Qkv x(3, 3, dtype);
    const AttentionHooks mask_scores{
        .on_scores = [&](const Tensor& s) { return masked_fill(s, logical_not(row1), -kInf); }};
    const AttentionOptions options{.hooks = &mask_scores};
    const AttentionResult r = attention_with_weights(x.q, x.k, x.v, options);
    for (const Tensor& y : {x(options), r.output}) {
      CHECK(is_zero(select(y, 2, 1)));
      CHECK(all_finite(y));
      for (const Tensor& g : x.gradients(y)) CHECK(all_finite(g));
      CHECK(is_zero(select(x.gradients(y)[0], 2, 1)));
      for (const Tensor& g : grad(sum(select(y, 2, 1)), {x.q, x.k, x.v}, {.retain_graph = true}))
        CHECK(is_zero(g));
    }
    CHECK(is_zero(select(r.pattern, 2, 1)));
  }
}

TEST_CASE("dropout on the weights draws one key per call") {
  const Qkv x(5, 5);
  const auto output = [&](std::uint64_t seed) {
    Generator g(seed);
    return x({.causal = true, .dropout = 0.5, .generator = &g});
  };
  CHECK(same_bits(output(1), output(1)));
  CHECK(!same_bits(output(1), output(2)));
  Generator drawn(3), same(3);
  x({.dropout = 0.5, .generator = &drawn});
  same.next_u64();
  CHECK(drawn.next_u32() == same.next_u32());
  Generator untouched(4), mine(4);
  x({.generator = &mine});
  CHECK(mine.next_u32() == untouched.next_u32());
}

TEST_CASE("hooks receive and replace scores and weights, each before the next") {
  const Qkv x(3, 3);
  Tensor seen_raw, seen_scores, seen_pattern, seen_dropped;
  const AttentionHooks hooks{
      .on_raw_scores = [&](const Tensor& s) { return seen_raw = s, zeros_like(s); },
      .on_scores = [&](const Tensor& s) { return seen_scores = s; },
      .on_pattern = [&](const Tensor& p) { return seen_pattern = p, p * 2.0; },
      .on_dropped = [&](const Tensor& d) { return seen_dropped = d, ones_like(d); }};
  const Tensor y = x({.causal = true, .hooks = &hooks});
  CHECK(allclose(seen_raw, matmul(x.q, mT(x.k)) / std::sqrt(double(x.q.size(-1))), 1e-13, 1e-13));
  CHECK(seen_scores.at({0, 0, 0, 1}) == -kInf);
  CHECK(seen_scores.at({0, 0, 1, 0}) == 0);
  CHECK(seen_pattern.at({0, 0, 0, 0}) == 1);
  CHECK(seen_pattern.at({0, 0, 1, 0}) == 0.5);
  CHECK(seen_dropped.at({0, 0, 1, 0}) == 1);
  CHECK(allclose(y, expand(sum(x.v, {2}, true), y.shape()), 1e-13, 1e-13));
}

TEST_CASE("a mask of rank 1 or 0 applies to every query") {
  const Qkv x(2, 3);
  const std::vector<bool> bits = {true, false, true};
  const KeepMask row(bool_tensor(bits, {3}));
  CHECK(row.tensor().shape() == Shape{1, 3});
  CHECK(same_bits(x({.keep = row}), x({.keep = KeepMask(bool_tensor(bits, {1, 3}))})));
  CHECK(same_bits(x({.causal = true, .keep = row}),
                  x({.causal = true, .keep = KeepMask(bool_tensor(bits, {1, 3}))})));
  CHECK(is_zero(x({.keep = KeepMask(full({}, 0, bool8))})));
}

TEST_CASE("softmax, log_softmax and logsumexp of fully masked rows, at both orders") {
  for (const DType dtype : {float32, float64}) {
    const Tensor x =
        to(tensor({{-kInf, -kInf, -kInf}, {1, -kInf, 2}}, float64), dtype).requires_grad_();
    const Tensor p = softmax(x, -1), log_p = log_softmax(x, -1), lse = logsumexp(x, {-1});
    CHECK(values(slice(p, 0, 0, 1)) == V{0, 0, 0});
    CHECK(values(slice(log_p, 0, 0, 1)) == V{-kInf, -kInf, -kInf});
    CHECK(lse.at({0}) == -kInf);
    CHECK(p.at({1, 1}) == 0);
    CHECK(log_p.at({1, 1}) == -kInf);
    CHECK(lse.at({1}) == Approx(2 + std::log(1 + std::exp(-1))));
    const Tensor w = to(tensor({{1, 2, 3}, {4, 5, 7}}, float64), dtype);
    for (const Tensor& y : {p, log_p, expand(unsqueeze(lse, 1), {2, 3})}) {
      const Tensor g = grad(y, {x}, {.grad_output = w, .create_graph = true})[0];
      CHECK(all_finite(g));
      CHECK(is_zero(slice(g, 0, 0, 1)));
      CHECK(!is_zero(slice(g, 0, 1, 2)));
      const Tensor second = grad(sum(g * w), {x}, {.retain_graph = true, .allow_unused = true})[0];
      CHECK(all_finite(second));
      CHECK(is_zero(slice(second, 0, 0, 1)));
    }
    CHECK(grad(sum(p * w), {x}, {.retain_graph = true})[0].at({1, 1}) == 0);
  }
}

TEST_CASE("unselected NaN and inf get gradient exactly 0, and do not make other gradients NaN") {
  const Tensor x = tensor({std::nan(""), 2, kInf}, float64).requires_grad_();
  const Tensor mask = bool_tensor({true, false, true}, {3});
  CHECK(values(grad(sum(exp(masked_fill(x, mask, 0))), {x})[0])[0] == 0);
  CHECK(values(grad(sum(masked_fill(x, mask, 0) * 3.0), {x})[0]) == V{0, 3, 0});
  CHECK(values(grad(sum(where(mask, zeros_like(x), x * x)), {x}, {.allow_unused = true})[0])[1] ==
        4);
}

}  // namespace
