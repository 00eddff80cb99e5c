// Tests of sampling: the choice of the next token, and several samples in one batch.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
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

TEST_CASE("a sample does not depend on the other samples, also if some end early") {
  using Texts = std::vector<std::vector<Index>>;
  for (const DType dtype : {float32, float64}) {
    const Transformer model =
        random_model({.vocab = 7,
                      .context = 6,
                      .attention = {.d_model = 24, .heads = 2, .dtype = dtype},
                      .positions = Positions::kRope});
    // Generates the samples whose numbers are in `numbers`. Sample numbers[i] ends after ends[i]
    // tokens.
    const auto texts = [&](const std::vector<Index>& numbers,
                           const std::vector<std::size_t>& ends) {
      std::vector<Generator> streams;
      for (const Index i : numbers) streams.push_back(sample_stream(9, i));
      Texts out(numbers.size());
      generate_samples(model, {3, 1}, 15, {}, streams, [&](Index i, Index id) {
        const auto at = std::size_t(i);
        out[at].push_back(id);
        return out[at].size() < ends[at];
      });
      return out;
    };
    const Texts all = texts({0, 1, 2, 3, 4}, {99, 99, 99, 99, 99});
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(all[i].size() == 15);
      CHECK(texts({Index(i)}, {99})[0] == all[i]);
      for (std::size_t j = 0; j < i; ++j) CHECK(all[i] != all[j]);
    }
    Texts cut = texts({0, 1, 2}, {4, 99, 1});
    CHECK(cut[0].size() == 4);
    CHECK(cut[2].size() == 1);
    CHECK(std::equal(cut[0].begin(), cut[0].end(), all[0].begin()));
    CHECK(cut[1] == all[1]);
    CHECK(cut[2][0] == all[2][0]);
    std::vector<Index> one;
    Generator g(9);
    generate(model, {3, 1}, 15, {}, g, [&](Index id) {
      one.push_back(id);
      return true;
    });
    CHECK(one == texts({0}, {99})[0]);
  }
}

TEST_CASE("samples need a stream, and a token to start from") {
  const Transformer model =
      random_model({.vocab = 7, .context = 6, .attention = {.d_model = 8, .heads = 2}});
  std::vector<Generator> streams = {Generator(1)};
  const auto any = [](Index, Index) { return true; };
  CHECK_THROWS_WITH(generate_samples(model, {1}, 1, {}, {}, any),
                    "generate: needs at least one stream of random numbers");
  CHECK_THROWS_WITH(generate_samples(model, {}, 1, {}, streams, any),
                    "generate: needs at least one token to start from");
}

}  // namespace
