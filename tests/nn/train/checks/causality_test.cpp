// Tests of reach() and causality() with causal models and with layers that leak.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// The attention layer of a notebook, called notebook 0, in which one projection computes q, k and v
// of all heads. If `permute_back` is false, the layer has the notebook's mistake: the heads are
// joined without undoing the permute.
Tensor fused_heads(const Tensor& x, const Tensor& qkv_weight, bool permute_back) {
  const std::int64_t batch = x.size(0), length = x.size(1), heads = 2, d = x.size(2) / heads;
  const Tensor qkv = reshape(linear(x, qkv_weight), {batch, length, heads, 3 * d});
  const auto parts = chunk(permute(qkv, {0, 2, 1, 3}), 3, -1);
  const Tensor z = attention(parts[0], parts[1], parts[2], {.causal = true});
  return reshape(permute_back ? permute(z, {0, 2, 1, 3}) : z, x.shape());
}

TEST_CASE("notebook 0's layer leaks later tokens without the permute, and not with it") {
  Generator g(3);
  const Tensor x = randn({1, 3, 4}, float64, g), w = randn({12, 4}, float64, g);
  const Reach wrong = reach([&](const Tensor& t) { return fused_heads(t, w, false); }, x);
  CHECK(!wrong.ok());
  REQUIRE(!wrong.leaks().empty());
  CHECK(wrong.leaks()[0].output == 0);
  CHECK(wrong.leaks()[0].input == 1);
  CHECK(wrong.leaks()[0].value == wrong.at(0, 1));
  CHECK(wrong.text() == "#!.\n##!\n###\n");
  const Reach right = reach([&](const Tensor& t) { return fused_heads(t, w, true); }, x);
  CHECK(right.ok());
  CHECK(right.text() == "#..\n##.\n###\n");
}

TEST_CASE("every kind of Transformer is causal: plain, padded, cached, in both dtypes") {
  for (const Positions positions : kAllPositions)
    for (const DType dtype : {float32, float64})
      for (const NormPlacement norm :
           {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kNone}) {
        const Transformer model =
            random_model({.vocab = 7,
                          .layers = 2,
                          .context = 12,
                          .attention = {.d_model = 8, .heads = 2, .dtype = dtype},
                          .positions = positions,
                          .norm = norm});
        const std::vector<Reach> c = causality(model);
        REQUIRE(c.size() == 4);
        for (const Reach& r : c) {
          CAPTURE(int(positions), dtype, int(norm), r.name, r.text());
          CHECK(r.ok());
          CHECK(r.length == 12);
          const bool padded = r.name.find("padding") != std::string::npos;
          for (std::int64_t t = 0; t < 12 && !padded; ++t)
            for (std::int64_t s = 0; s <= t; ++s) CHECK(r.at(t, s) != 0);
        }
        CHECK(std::ranges::all_of(c, &Reach::ok));
      }
}

TEST_CASE("every variant of attention is causal, and a window limits the reach") {
  for (const auto& [name, o] :
       variant_models({.vocab = 7,
       .layers = 2,
       .context = 12,
       .attention = {.d_model = 8, .heads = 2, .dtype = heed::autograd::float64}})) {
    const std::vector<Reach> c = causality(random_model(o));
    for (const Reach& r : c) {
      CAPTURE(name, r.name, r.text());
      CHECK(r.ok());
    }
    if (o.attention.window == 0) continue;
    // Through two layers, an output depends on inputs up to 2 (window - 1) positions back. c[0]
    // is the plain pass, and c[3] is the pass with a cache.
    for (const Reach* r : {&c[0], &c[3]})
      for (std::int64_t t = 0; t < 12; ++t)
        for (std::int64_t s = 0; s <= t; ++s) {
          CAPTURE(name, r->name, t, s, r->text());
          CHECK((r->at(t, s) != 0) == (t - s <= 2 * (o.attention.window - 1)));
        }
  }
}

TEST_CASE("leaks and blind outputs are found, however small the derivative is") {
  Generator g(4);
  const Tensor x = randn({1, 4, 3}, float64, g);
  const Reach ahead = reach([](const Tensor& t) { return flip(t, 1); }, x);
  CHECK(ahead.leaks().size() == 2);
  CHECK(ahead.blind().size() == 4);
  CHECK(ahead.text() == "?..!\n.?!.\n.#?.\n#..?\n");
  // A tiny derivative and a NaN both count as leaks.
  const Tensor later = triu(ones({4, 4}, float64), 1);
  const Reach faint = reach([&](const Tensor& t) { return t + 1e-300 * matmul(later, t); }, x);
  CHECK(faint.leaks().size() == 6);
  const Reach nan = reach([&](const Tensor& t) { return t + std::nan("") * matmul(later, t); }, x);
  CHECK(nan.leaks().size() == 6);
  const Reach blind = reach([](const Tensor& t) { return t.detach(); }, x);
  CHECK(blind.blind().size() == 4);
  CHECK(blind.leaks().empty());
  CHECK(!blind.ok());
}

TEST_CASE("padding that another output reads is a leak") {
  Generator g(5);
  const Tensor x = randn({1, 3, 2}, float64, g);
  Reach r = reach([](const Tensor& t) { return matmul(tril(ones({3, 3}, float64)), t); }, x);
  CHECK(r.ok());
  r.padding = {true, false, false};
  CHECK(r.leaks().size() == 2);
  CHECK(r.text() == "#..\n!#.\n!##\n");
}

TEST_CASE("a long x is checked in several batches") {
  Generator g(6);
  const Tensor x = randn({1, 70, 2}, float64, g);
  const Tensor leak = zeros({70, 70}, float64);
  for (int t = 0; t < 70; ++t) leak.mutable_data<double>()[t * 70 + t] = 1;
  leak.mutable_data<double>()[40 * 70 + 69] = 1;
  const auto places = reach([&](const Tensor& t) { return matmul(leak, t); }, x).leaks();
  REQUIRE(places.size() == 1);
  CHECK(places[0].output == 40);
  CHECK(places[0].input == 69);
  const Transformer model(
      {.vocab = 5, .layers = 1, .context = 70, .attention = {.d_model = 8, .heads = 2}}, g);
  const std::vector<Reach> c = causality(model, 70);
  CHECK(std::ranges::all_of(c, &Reach::ok));
  for (const Reach& r : c) {
    CHECK(r.values.size() == 70 * 70);
    CHECK(r.at(69, 50) != 0);  // padding is only at 0 to 16, or at 53 to 69
  }
}

TEST_CASE("spot_leaks finds a leak with every seed") {
  Transformer model =
      random_model({.vocab = 5, .context = 40, .attention = {.d_model = 8, .heads = 2}});
  for (int seed = 1; seed <= 5; ++seed) CHECK(spot_leaks(model, seed).empty());
  const Tensor kept = contiguous(model.head->weight.detach() * 1.0);
  {
    const NoGrad guard;
    copy_(model.head->weight, full(kept.shape(), std::nan(""), kept.dtype()));
    CHECK(spot_leaks(model, 1).empty());
    copy_(model.head->weight, kept);
  }
  model.blocks[1].attn.options.causal = false;
  for (int seed = 1; seed <= 5; ++seed) {
    const auto leaks = spot_leaks(model, seed);
    REQUIRE(!leaks.empty());
    for (const Reach::Place& leak : leaks) {
      CHECK(leak.input > leak.output);
      CHECK(leak.value > 0);
    }
  }
}

TEST_CASE("causality reports its progress") {
  const Transformer model =
      random_model({.vocab = 3, .context = 40, .attention = {.d_model = 4, .heads = 1}});
  std::vector<std::int64_t> reported;
  causality(model, 40, [&](std::int64_t done, std::int64_t total) {
    CHECK(total == 4 * 40);
    reported.push_back(done);
  });
  CHECK(reported == std::vector<std::int64_t>{32, 40, 72, 80, 112, 120, 152, 160});
}

TEST_CASE("reach and causality reject wrong shapes and lengths") {
  const Tensor x = zeros({1, 3, 2}, float64);
  CHECK_THROWS_WITH(reach([](const Tensor& t) { return t; }, zeros({2, 3}, float64)),
                    "causality: needs an x of [1, T, ...], got [2, 3]");
  CHECK_THROWS_WITH(reach([](const Tensor& t) { return sum(t); }, x),
                    "causality: f needs to map [3, 3, 2] to [3, 3, ...], got []");
  const Transformer model =
      random_model({.vocab = 3, .context = 8, .attention = {.d_model = 4, .heads = 1}});
  CHECK_THROWS_WITH(causality(model, 9),
                    "causality: needs a length of 2 to 8, the model's context, got 9");
}

}  // namespace
