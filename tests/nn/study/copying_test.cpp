// Heads made by hand, whose output is the token they read, its opposite, or another one's.
#include "nn/study/copying.h"

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// One layer, one head, everything the identity: values are the tokens' one-hot embeddings, and the
// head writes `factor` times what it reads. With `shift`, that of the token after it.
Transformer hand_made(double factor, bool shift, bool uniform) {
  constexpr std::int64_t kTokens = 6;
  Transformer::Options o{.vocab = kTokens,
                         .layers = 1,
                         .context = kTokens,
                         .attention = {.d_model = kTokens, .heads = 1}};
  o.mlp = o.attention.bias = false, o.norm = NormPlacement::kNone, o.positions = Positions::kNone;
  o.attention.form = AttentionForm::kPerHead, o.attention.dtype = float64;
  Transformer model(o);
  const NoGrad guard;
  const Tensor one = eye(kTokens, -1, float64);
  AttentionWeights& w = model.blocks[0].attn.weights;
  copy_(model.tok.weight, one);
  copy_(model.head->weight, one);
  // Each query reads its own token, or all before it alike.
  const double sharp = uniform ? 0 : 100;
  copy_(w.W_Q, unsqueeze(one * sharp, 0));
  copy_(w.W_K, unsqueeze(one, 0));
  copy_(w.W_V, unsqueeze(one, 0));
  const Tensor after = cat({slice(one, 1, 5, 6), slice(one, 1, 0, 5)}, 1);  // row i is token i + 1
  copy_(w.W_O, unsqueeze((shift ? after : one) * factor, 0));
  return model;
}

TEST_CASE("a head that writes what it reads copies wholly, one that writes another token not") {
  CHECK(copying_scores(hand_made(1, false, false)).at(0) == Approx(3));
  CHECK(copying_scores(hand_made(1, true, false)).at(0) == Approx(-1));
  // The opposite of what it reads raises all but that one.
  CHECK(copying_scores(hand_made(-1, false, false)).at(0) == Approx(-1));
  // Read alike, the tokens before are raised alike, as long as that is above the mean.
  const double alike = copying_scores(hand_made(1, false, true)).at(0);
  CHECK(alike > -1);
  CHECK(alike < 3);
  CHECK(std::isnan(copying_scores(hand_made(0, false, false)).at(0)));
}

TEST_CASE("copying does not depend on the form of the weights, and refuses post-norm") {
  for (const auto& [name, o] : variant_models({.vocab = 7,
                               .layers = 2,
                               .context = 6,
                               .attention = {.d_model = 8, .heads = 4, .dtype = float64}})) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const std::vector<double> scores = copying_scores(model);
    REQUIRE(scores.size() == 8);
    for (const double s : scores) {
      CHECK(s >= -1);
      CHECK(s <= 3);
    }
    CHECK(copying_scores(model, 2) != scores);
  }
  CHECK_THROWS_WITH(
      copying_scores(random_model(
          {.vocab = 5, .attention = {.d_model = 8, .heads = 2}, .norm = NormPlacement::kPost})),
      Contains("after each sum"));
}

}  // namespace
