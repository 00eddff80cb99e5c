// Tests of generation beyond the context with a cache that drops its oldest tokens. The results
// equal those of one forward pass with a sliding-window mask.
#include "autograd/base/pool.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"
#include "tests/support/tiny_model.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// Returns random_model(o) with context length n. If the positions are relative, its weights equal
// those of random_model(o).
Transformer longer(Transformer::Options o, std::int64_t n) {
  o.context = n;
  return random_model(o);
}
// Returns the logits of all positions, where each position attends to the last kContext tokens.
Tensor windowed(const Transformer& longer, const Tensor& ids) {
  const std::int64_t n = ids.size(1);
  return longer.forward(ids, {.keep = KeepMask::sliding_window(n, n, kContext)});
}
// Returns the logits of all positions, computed token by token with a cache of at most kContext
// tokens.
Tensor sliding(const Transformer& model, const Tensor& ids, std::int64_t spare) {
  KVCache cache = model.cache(ids.size(0), spare);
  std::vector<Tensor> pieces;
  for (std::int64_t i = 0; i < ids.size(1); ++i) {
    if (cache.length() == kContext) cache.drop(1);
    CHECK(cache.position() == i);
    pieces.push_back(model.forward(slice(ids, 1, i, i + 1), {.cache = &cache}));
  }
  return cat(pieces, 1);
}

constexpr std::int64_t kText = 40;  // number of tokens in a text, more than kContext

TEST_CASE("a cache that drops its oldest token gives the logits of a pass with a window mask") {
  const NoGrad guard;
  std::vector<NamedModel> models;
  for (const DType dtype : {float64, float32})
    for (const Positions positions : {Positions::kRope, Positions::kAlibi, Positions::kNone}) {
      Transformer::Options o = tiny(dtype);
      o.positions = positions, o.layers = 3;
      models.push_back({"plain", o});
    }
  for (const auto& variant : variant_models(tiny()))
    if (are_relative(variant.options.positions)) models.push_back(variant);
  CHECK(models.size() >= 10);
  for (const auto& [name, o] : models) {
    CAPTURE(name, o.attention.dtype, int(o.positions));
    const Transformer model = random_model(o);
    const Tensor ids = random_ids(2, kText), want = windowed(longer(o, kText), ids);
    const double bound = o.attention.dtype == float64 ? 1e-12 : 1e-5;
    for (const std::int64_t spare : {0, 1, 4, 100})
      CHECK(relative_distance(sliding(model, ids, spare), want) <= bound);
    // The window mask changes the logits, unless the model itself has a narrower window.
    CHECK(
        (o.attention.window > 0 || relative_distance(longer(o, kText).forward(ids), want) > 1e-4));
  }
}

TEST_CASE("generated tokens beyond the context equal those of a pass with a window mask") {
  for (const Positions positions : {Positions::kRope, Positions::kAlibi, Positions::kNone})
    for (const std::size_t prompt : {1u, 8u, 9u, 10u, 20u}) {
      CAPTURE(int(positions), prompt);
      Transformer::Options o = tiny();
      o.positions = positions;
      const Transformer model = random_model(o), whole = longer(o, kText);
      std::vector<std::int64_t> ids(prompt), want;
      for (std::size_t i = 0; i < prompt; ++i) ids[i] = std::int64_t(i * 7 % kVocab);
      std::vector<Generator> streams = {Generator(17)};
      std::vector<std::int64_t> got;
      generate_samples(model, ids, 20, {.past = Past::kSlide}, streams,
                       [&](std::int64_t, const GeneratedToken& token) {
                         got.push_back(token.id);
                         return true;
                       });
      Generator g(17);
      const NoGrad guard;
      for (int i = 0; i < 20; ++i) {
        const Tensor logits = windowed(whole, from_data(ids, {1, std::ssize(ids)}));
        want.push_back(sample_token(select(select(logits, 0, 0), 0, -1), {}, g));
        ids.push_back(want.back());
      }
      CHECK(got == want);
    }
}

TEST_CASE("models with a table of positions cannot drop tokens") {
  for (const Positions positions : {Positions::kLearned, Positions::kSinusoidal}) {
    Transformer::Options o = tiny();
    o.positions = positions;
    const Transformer model = random_model(o);
    std::vector<Generator> streams = {Generator(1)};
    CHECK_THROWS_WITH(generate_samples(model, {1}, 1, {.past = Past::kSlide}, streams,
                                       [](std::int64_t, const GeneratedToken&) { return true; }),
                      "generate: `past` slide needs relative positions (rope, alibi or none); the "
                      "positions of this model are a table; use `past` recompute");
    const NoGrad guard;
    KVCache cache = model.cache();
    model.forward(random_ids(1), {.cache = &cache});
    cache.drop(1);
    CHECK_THROWS_WITH(
        model.forward(random_ids(1, 1), {.cache = &cache}),
        "Transformer: the KV cache has dropped tokens, but the positions of this model are a "
        "table; call clear() and run the remaining tokens again, or use positions rope, alibi or "
        "none");
    cache.clear();
    CHECK(cache.position() == 0);
    model.forward(random_ids(1), {.cache = &cache});
  }
}

TEST_CASE("rope frees the angles of positions that are not used any more") {
  const Tensor x = ones({1, 4}, float64);
  const std::uint64_t before = heed::autograd::pool_stats().live_bytes;
  for (std::int64_t p = 0; p < 60000; ++p) rope(x, {.base = 77, .offset = p});
  // The angles of all 60,000 positions would need 2 MB.
  CHECK(heed::autograd::pool_stats().live_bytes - before < 1500000);
  const Tensor far = rope(x, {.base = 77, .offset = 59999});
  CHECK(select(select(far, 0, 0), 0, 0).item() ==
        Approx(std::cos(59999.0) - std::sin(59999.0)).margin(1e-12));
}

}  // namespace
