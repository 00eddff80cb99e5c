// Tests of the copying score on hand-made heads. The output of a head is the embedding of the token
// that it attends to, the negative of this embedding, or the embedding of another token.
#include "autograd/autograd.h"
#include "nn/study/lens.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// Returns a model of one layer and one head whose matrices are identities, so that values are
// one-hot embeddings. Each query attends to its own token, and the head writes `factor` times the
// embedding of this token. If `shift` is true, it writes `factor` times the embedding of the next
// token id. If `uniform` is true, all visible tokens have equal attention weights.
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
  // If queries are large, each query attends to its own token. If they are 0, the weights are
  // uniform.
  const double sharp = uniform ? 0 : 100;
  copy_(w.W_Q, unsqueeze(one * sharp, 0));
  copy_(w.W_K, unsqueeze(one, 0));
  copy_(w.W_V, unsqueeze(one, 0));
  const Tensor after = cat({slice(one, 1, 5, 6), slice(one, 1, 0, 5)}, 1);  // row i: token i + 1
  copy_(w.W_O, unsqueeze((shift ? after : one) * factor, 0));
  return model;
}

TEST_CASE("a head that writes the token it reads scores 3, one that writes another token -1") {
  CHECK(copying_scores(hand_made(1, false, false)).at(0) == Approx(3));
  CHECK(copying_scores(hand_made(1, true, false)).at(0) == Approx(-1));
  // If the head writes the negative of the embedding, it raises the logits of all tokens except the
  // token that it attends to.
  CHECK(copying_scores(hand_made(-1, false, false)).at(0) == Approx(-1));
  // With uniform weights the head raises the logits of several tokens, so its score is between -1
  // and 3.
  const double uniform = copying_scores(hand_made(1, false, true)).at(0);
  CHECK((uniform > -1 && uniform < 3));
  CHECK(std::isnan(copying_scores(hand_made(0, false, false)).at(0)));
}

TEST_CASE("copying scores are in range for every form of the weights; post-norm is an error") {
  for (const auto& [name, o] : variant_models({.vocab = 7,
                               .layers = 2,
                               .context = 6,
                               .attention = {.d_model = 8, .heads = 4, .dtype = float64}})) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const std::vector<double> scores = copying_scores(model);
    REQUIRE(scores.size() == 8);
    for (const double s : scores) CHECK((s >= -1 && s <= 3));
    CHECK(copying_scores(model, 2) != scores);
  }
  CHECK_THROWS_WITH(
      copying_scores(random_model(
          {.vocab = 5, .attention = {.d_model = 8, .heads = 2}, .norm = NormPlacement::kPost})),
      Contains("trained with norm pre or none"));
}

}  // namespace
