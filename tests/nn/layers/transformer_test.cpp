// Tests of the Transformer: positions and norms. kv_cache_test.cpp tests causality.
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::testing::same_bits;

TEST_CASE("sinusoidal positions follow Vaswani et al.") {
  const Tensor table = sinusoidal_positions(40, 6, float64);
  CHECK(table.at({0, 0}) == 0);
  CHECK(table.at({0, 1}) == 1);
  CHECK(table.at({7, 0}) == std::sin(7.0));
  CHECK(table.at({7, 3}) == Approx(std::cos(7 / std::pow(10000, 2.0 / 6))).epsilon(1e-14));
  CHECK(table.at({39, 4}) == Approx(std::sin(39 / std::pow(10000, 4.0 / 6))).epsilon(1e-14));
  // A shift of all positions rotates all rows by equal angles, so the product of two rows depends
  // only on their distance.
  const auto dot = [&](Index p, Index q) {
    return sum(select(table, 0, p) * select(table, 0, q)).item();
  };
  CHECK(dot(3, 8) == Approx(dot(20, 25)).epsilon(1e-12));
}

TEST_CASE("extend_context lets a model without learned positions accept longer sequences") {
  const NoGrad guard;
  for (const Positions positions : kAllPositions) {
    CAPTURE(int(positions));
    const Transformer::Options options{.vocab = 5,
                                       .layers = 1,
                                       .context = 6,
                                       .attention = {.d_model = 8, .heads = 2, .dtype = float64},
                                       .positions = positions};
    Transformer model = random_model(options);
    Generator g(5);
    const Tensor ids = randint(0, 5, {1, 9}, g), first = contiguous(slice(ids, 1, 0, 6));
    const Tensor before = model.forward(first);
    extend_context(model, 4);  // does nothing
    CHECK(model.options.context == 6);
    if (positions == Positions::kLearned) {
      CHECK(message_of<ValueError>([&] { extend_context(model, 9); }) ==
            "`context`: the learned positions of the model end at 6 tokens, got 9");
    } else {
      extend_context(model, 9);
      // The longer model equals one that was made with this context and has the same weights.
      Transformer::Options longer = options;
      longer.context = 9;
      const Tensor logits = model.forward(ids);
      CHECK(same_bits(logits, random_model(longer).forward(ids)));
      CHECK(allclose(slice(logits, 1, 0, 6), before, 0, 1e-12));
      CHECK_THROWS_AS(extend_context(model, Index{1} << 30), ValueError);
    }
    CHECK(same_bits(model.forward(first), before));
  }
}

TEST_CASE("every encoding of positions distinguishes orders of tokens, and kNone does not") {
  for (const Positions positions : kAllPositions) {
    CAPTURE(int(positions));
    const Transformer model =
        random_model({.vocab = 5,
                      .layers = 1,
                      .context = 6,
                      .attention = {.d_model = 8, .heads = 2, .dtype = float64},
                      .positions = positions});
    const NoGrad guard;
    // Returns the logits at the last of six positions. The calls below differ in the order of the
    // first five tokens.
    const auto last = [&](const std::vector<Index>& ids) {
      return select(select(model.forward(from_data(ids, {1, 6})), 0, 0), 0, 5);
    };
    const Tensor a = last({0, 1, 2, 3, 4, 0}), b = last({3, 0, 4, 2, 1, 0});
    CHECK(allclose(a, b, 0, 1e-12) == (positions == Positions::kNone));
  }
}

TEST_CASE("RoPE scores depend only on the distance, and ALiBi adds -slope times the distance") {
  Generator g(6);
  const Tensor q = randn({1, 8}, float64, g), k = randn({1, 8}, float64, g);
  const auto score = [&](Index p, Index j) {
    return sum(rope(q, {.offset = p}) * rope(k, {.offset = j})).item();
  };
  CHECK(score(9, 4) == Approx(score(105, 100)).epsilon(1e-11));
  CHECK(!(std::abs(score(9, 4) - score(9, 5)) < 1e-3));
  // The 3 queries have positions 2, 3 and 4 among the 5 keys.
  const Tensor bias = ScoreBias::alibi(4, 3, 5, float64).tensor();
  CHECK(bias.shape() == Shape{4, 3, 5});
  CHECK(bias.at({0, 2, 4}) == 0);
  CHECK(bias.at({0, 2, 0}) == -4 * 0.25);  // the slopes are 2^-2, 2^-4, 2^-6 and 2^-8
  CHECK(bias.at({3, 0, 0}) == -2 * std::exp2(-8));
  const Tensor three = ScoreBias::alibi(3, 1, 2, float64).tensor();
  // Like the code of the paper, alibi() gives 3 heads the slopes of 2 heads, followed by the first
  // slope of 4 heads.
  CHECK(three.at({0, 0, 0}) == -std::exp2(-4));
  CHECK(three.at({1, 0, 0}) == -std::exp2(-8));
  CHECK(three.at({2, 0, 0}) == -std::exp2(-2));
}

TEST_CASE("norm placements, and rows of mean square 1 after LayerNorm and RMSNorm") {
  Generator g(7);
  const Tensor x = randn({2, 3, 8}, float64, g) * 5.0 + 1.0;
  for (const NormPlacement norm :
       {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kNone}) {
    const Block block(
        {.attention = {.d_model = 8, .heads = 2, .causal = true, .dtype = float64}, .norm = norm},
        g);
    const Tensor y = block(x);
    const bool normal = max(abs(mean(y, {-1}))).item() < 1e-12;
    CHECK(normal == (norm == NormPlacement::kPost));
    CHECK(block.ln1.has_value() == (norm != NormPlacement::kNone));
    // The expected output of the block is computed from its sublayers.
    const auto n = [&](const std::optional<Norm>& ln, const Tensor& u, bool here) {
      return here ? (*ln)(u) : u;
    };
    const bool pre = norm == NormPlacement::kPre, post = norm == NormPlacement::kPost;
    const Tensor h = n(block.ln1, x + block.attn(n(block.ln1, x, pre)), post);
    CHECK(same_bits(y, n(block.ln2, h + (*block.mlp)(n(block.ln2, h, pre)), post)));
  }
  const RMSNorm rms({.dim = 8, .dtype = float64});
  const Tensor y = rms(x);
  CHECK(allclose(mean(y * y, {-1}), ones({2, 3}, float64), 1e-5, 0));
}

}  // namespace
