// Tests of sampling: the choice of the next token, the probability of this token, and several
// samples in one batch.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("a temperature near 0 chooses the most likely token") {
  Generator g(1);
  const Tensor logits = heed::autograd::tensor({1000.0, 1001.0, -1000.0}, heed::autograd::float32);
  for (int i = 0; i < 20; ++i) CHECK(sample_token(logits, {.temperature = 1e-300}, g) == 1);
}

TEST_CASE("a logit that is NaN is an error") {
  CHECK_THROWS_WITH(sample_token(full({3}, std::nan("")), {.greedy = true}, default_generator()),
                    Contains("the logit of token 0 is nan"));
}

// Returns the model's probabilities of the token after `ids`.
std::vector<double> next_of(const Transformer& model, const std::vector<std::int64_t>& ids) {
  const auto length = std::min(std::ssize(ids), std::ptrdiff_t(model.options.context));
  const std::vector<std::int64_t> window(ids.end() - length, ids.end());
  const Tensor logits = model(from_data(window, {1, length}));
  return softmax(to(select(select(logits, 0, 0), 0, -1), float64), 0).to_vector<double>();
}

TEST_CASE("a token has the model's probability, whatever the temperature, and the runner-up's") {
  const NoGrad guard;
  const Transformer model = random_model(
      {.vocab = 7, .layers = 1, .context = 6, .attention = {.d_model = 8, .heads = 2}});
  std::vector<std::int64_t> ids = {3};
  std::vector<GeneratedToken> tokens;
  Generator g(2);
  generate(model, ids, 12, {.temperature = 3, .top_k = 4}, g, [&](const GeneratedToken& t) {
    tokens.push_back(t);
    return true;
  });
  REQUIRE(tokens.size() == 12);
  int likeliest = 0;
  for (const GeneratedToken& t : tokens) {
    const std::vector<double> p = next_of(model, ids);
    CHECK(t.probability == Approx(p[std::size_t(t.id)]).epsilon(1e-4));
    CHECK(t.runner_up != t.id);
    CHECK(t.runner_up_probability == Approx(p[std::size_t(t.runner_up)]).epsilon(1e-4));
    for (std::int64_t i = 0; i < 7; ++i)
      if (i != t.id) CHECK(p[std::size_t(i)] <= t.runner_up_probability + 1e-6);
    likeliest += t.probability > t.runner_up_probability;
    ids.push_back(t.id);
  }
  CHECK(likeliest > 0);
  CHECK(likeliest < 12);
}

TEST_CASE("a sample does not depend on the other samples, also if some end early") {
  using Texts = std::vector<std::vector<std::int64_t>>;
  for (const DType dtype : {float32, float64}) {
    const Transformer model =
        random_model({.vocab = 7,
                      .context = 6,
                      .attention = {.d_model = 24, .heads = 2, .dtype = dtype},
                      .positions = Positions::kRope});
    // Generates the samples whose numbers are in `numbers`. Sample numbers[i] ends after ends[i]
    // tokens.
    const auto texts = [&](const std::vector<std::int64_t>& numbers, Past past,
                           const std::vector<std::size_t>& ends) {
      std::vector<Generator> streams;
      for (const std::int64_t i : numbers) streams.push_back(sample_stream(9, i));
      Texts out(numbers.size());
      generate_samples(model, {3, 1}, 15, {.past = past}, streams,
                       [&](std::int64_t i, const GeneratedToken& token) {
                         const auto at = std::size_t(i);
                         out[at].push_back(token.id);
                         return out[at].size() < ends[at];
                       });
      return out;
    };
    for (const Past past : {Past::kRecompute, Past::kSlide}) {
      const Texts all = texts({0, 1, 2, 3, 4}, past, {99, 99, 99, 99, 99});
      for (std::size_t i = 0; i < 5; ++i) {
        CHECK(all[i].size() == 15);
        CHECK(texts({std::int64_t(i)}, past, {99})[0] == all[i]);
        for (std::size_t j = 0; j < i; ++j) CHECK(all[i] != all[j]);
      }
      Texts cut = texts({0, 1, 2}, past, {4, 99, 1});
      CHECK(cut[0].size() == 4);
      CHECK(cut[2].size() == 1);
      CHECK(std::equal(cut[0].begin(), cut[0].end(), all[0].begin()));
      CHECK(cut[1] == all[1]);
      CHECK(cut[2][0] == all[2][0]);
    }
    std::vector<std::int64_t> one;
    Generator g(9);
    generate(model, {3, 1}, 15, {}, g, [&](const GeneratedToken& token) {
      one.push_back(token.id);
      return true;
    });
    CHECK(one == texts({0}, Past::kRecompute, {99})[0]);
  }
}

TEST_CASE("samples need a stream, and a token to start from") {
  const Transformer model =
      random_model({.vocab = 7, .context = 6, .attention = {.d_model = 8, .heads = 2}});
  std::vector<Generator> streams = {Generator(1)};
  const auto any = [](std::int64_t, const GeneratedToken&) { return true; };
  CHECK_THROWS_WITH(generate_samples(model, {1}, 1, {}, {}, any),
                    "generate: needs at least one stream of random numbers");
  CHECK_THROWS_WITH(generate_samples(model, {}, 1, {}, streams, any),
                    "generate: needs at least one token to start from");
}

}  // namespace
