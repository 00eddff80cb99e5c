// Tests of reach() and spot_leaks() with causal models and with layers that leak.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::nn::testing;

// Returns reach() of all outputs as a line per output with a character per input: a dot if the
// derivative is exactly 0, and otherwise #.
std::string text_of(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const Index length = x.size(1);
  std::string text;
  for (const double value : reach(f, x, arange(length)).to_vector<double>()) {
    text += value == 0 ? '.' : '#';
    if (std::ssize(text) % (length + 1) == length) text += '\n';
  }
  return text;
}

// The attention layer of a notebook, called notebook 0, in which one projection computes q, k and v
// of all heads. If `permute_back` is false, the layer has the notebook's mistake: the heads are
// joined without undoing the permute.
Tensor fused_heads(const Tensor& x, const Tensor& qkv_weight, bool permute_back) {
  const Index batch = x.size(0), length = x.size(1), heads = 2, d = x.size(2) / heads;
  const Tensor qkv = reshape(linear(x, qkv_weight), {batch, length, heads, 3 * d});
  const auto parts = chunk(permute(qkv, {0, 2, 1, 3}), 3, -1);
  const Tensor z = attention(parts[0], parts[1], parts[2], {.causal = true});
  return reshape(permute_back ? permute(z, {0, 2, 1, 3}) : z, x.shape());
}

TEST_CASE("notebook 0's layer leaks later tokens without the permute, and not with it") {
  Generator g(3);
  const Tensor x = randn({1, 3, 4}, float64, g), w = randn({12, 4}, float64, g);
  CHECK(text_of([&](const Tensor& t) { return fused_heads(t, w, false); }, x) == "##.\n###\n###\n");
  CHECK(text_of([&](const Tensor& t) { return fused_heads(t, w, true); }, x) == "#..\n##.\n###\n");
}

// Checks a model without padding, with padding at the end, and with padding at the start. An output
// may depend on its own input, and on earlier inputs that are not padding and at most `back`
// positions back. Without padding, it must depend on all of these.
void check_causal(const Transformer& model, int back) {
  constexpr int kLength = 12;
  Generator g(1);
  const Tensor x = model.tok(randint(0, model.options.vocab, {1, kLength}, g));
  for (const auto& [begin, end] : {std::pair(0, 0), {9, 12}, {0, 3}}) {
    std::vector<bool> padding(kLength, false);
    std::fill(padding.begin() + begin, padding.begin() + end, true);
    const KeepMask keep(logical_not(from_data(padding, {1, 1, 1, kLength})));
    const std::string text =
        text_of([&](const Tensor& e) { return model.forward_embedded(e, {.keep = keep}); }, x);
    int wrong = 0;
    for (int t = 0; t < kLength; ++t)
      for (int s = 0; s < kLength; ++s) {
        const bool depends = text[std::size_t(t * (kLength + 1) + s)] == '#';
        const bool may = s == t || (s < t && t - s <= back && !padding[std::size_t(s)]);
        wrong += depends ? !may : may && (s == t || begin == end);
      }
    CAPTURE(begin, end, text);
    CHECK(wrong == 0);
  }
}

TEST_CASE("every kind of Transformer is causal, also with padding") {
  for (const DType dtype : {float32, float64})
    for (const Positions positions : kAllPositions)
      for (const NormPlacement norm :
           {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kNone}) {
        CAPTURE(dtype, int(positions), int(norm));
        check_causal(random_model({.vocab = 7,
                                   .layers = 2,
                                   .context = 12,
                                   .attention = {.d_model = 8, .heads = 2, .dtype = dtype},
                                   .positions = positions,
                                   .norm = norm}),
                     12);
      }
  for (const auto& [name, o] : variant_models({.vocab = 7,
                               .layers = 2,
                               .context = 12,
                               .attention = {.d_model = 8, .heads = 2, .dtype = float64}})) {
    CAPTURE(name);
    check_causal(random_model(o), o.attention.window > 0 ? 2 * int(o.attention.window - 1) : 12);
  }
}

TEST_CASE("leaks and outputs without input are found, however small the derivative is") {
  Generator g(4);
  const Tensor x = randn({1, 4, 3}, float64, g), later = triu(ones({4, 4}, float64), 1);
  CHECK(text_of([](const Tensor& t) { return flip(t, 1); }, x) == "...#\n..#.\n.#..\n#...\n");
  CHECK(text_of([](const Tensor& t) { return t.detach(); }, x) == "....\n....\n....\n....\n");
  CHECK(text_of([&](const Tensor& t) { return t + 1e-300 * matmul(later, t); }, x) ==
        "####\n.###\n..##\n...#\n");
  CHECK(text_of([&](const Tensor& t) { return std::nan("") * t; }, x) ==
        "####\n####\n####\n####\n");
  CHECK_THROWS_WITH(reach([](const Tensor& t) { return sum(t); }, x, arange(4)),
                    "causality: f needs to map [4, 4, 3] to [4, 4, ...], got []");
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
    for (const Leak& leak : leaks) {
      CHECK(leak.input > leak.output);
      CHECK(leak.value > 0);
    }
  }
}

}  // namespace
