// Tests of the KV cache: logits and generated tokens equal those of full forward passes.
#include "autograd/base/pool.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"
#include "tests/support/tiny_model.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::nn::testing;
using heed::autograd::testing::same_bits;

// Returns the logits of ids [B, T], computed in chunks of the given lengths with a cache.
Tensor chunked(const Transformer& model, const Tensor& ids, KVCache& cache,
               const std::vector<Index>& chunks) {
  std::vector<Tensor> pieces;
  Index at = 0;
  for (const Index n : chunks) {
    pieces.push_back(model.forward(slice(ids, 1, at, at + n), {.cache = &cache}));
    at += n;
    CHECK(cache.length() == at);
  }
  return cat(pieces, 1);
}

// Returns the n tokens that generate() appends to `ids`.
std::vector<Index> generated(const Transformer& model, const std::vector<Index>& ids, Index n,
                             const SampleOptions& options) {
  std::vector<Index> out;
  Generator g(17);
  generate(model, ids, n, options, g, [&](Index id) {
    out.push_back(id);
    return true;
  });
  return out;
}

// Returns the n tokens that generate() must append to `ids`. Each token is sampled from the logits
// of a forward pass without a cache over the last `context` tokens.
std::vector<Index> by_full_passes(const Transformer& model, std::vector<Index> ids, Index n,
                                  const SampleOptions& options) {
  const std::size_t prompt = ids.size();
  const NoGrad guard;
  Generator g(17);
  for (Index i = 0; i < n; ++i) {
    const auto length = std::min(kContext, Index(ids.size()));
    const std::vector<Index> window(ids.end() - length, ids.end());
    const Tensor logits = model.forward(from_data(window, {1, length}));
    ids.push_back(sample_token(select(select(logits, 0, 0), 0, -1), options, g));
  }
  return {ids.begin() + std::ptrdiff_t(prompt), ids.end()};
}

TEST_CASE("a NaN token changes no bit of the logits before it, with and without a KV cache") {
  const NoGrad guard;
  for (const DType dtype : {float32, float64})
    for (const NamedModel& m : variant_models(tiny(dtype))) {
      CAPTURE(dtype, m.name);
      const Transformer::Options& o = m.options;
      if (o.tied) continue;  // the NaN would be in all logits
      const Transformer model = random_model(o);
      const auto ids = random_ids(2).to_vector<std::int64_t>();
      const Index length = std::ssize(ids) / 2, at = length / 2;
      std::vector<Index> clean = ids;
      const Index bad = o.vocab - 1;  // the token whose embedding is NaN
      for (auto& id : clean) id = id == bad ? 0 : id;
      std::vector<Index> dirty = clean;
      dirty[std::size_t(at)] = bad;  // in the first sequence only
      fill_(slice(model.tok.weight, 0, bad, bad + 1), std::nan(""));
      const auto logits = [&](const std::vector<Index>& tokens, bool cached) {
        const Tensor x = from_data(tokens, {2, length});
        if (!cached) return model.forward(x);
        KVCache cache = model.cache(2);
        return chunked(model, x, cache, {at - 1, 3, length - at - 2});
      };
      for (const bool cached : {false, true}) {
        const Tensor want = logits(clean, cached), got = logits(dirty, cached);
        CHECK(same_bits(slice(got, 1, 0, at), slice(want, 1, 0, at)));
        CHECK(same_bits(select(got, 0, 1), select(want, 0, 1)));
        CHECK(any(isfinite(slice(select(got, 0, 0), 0, at, at + 1))).item() == 0);
      }
    }
}

TEST_CASE("cached logits equal those of the full pass, for every kind of model") {
  const NoGrad guard;
  std::vector<NamedModel> models = variant_models(tiny());
  for (const Positions positions : kAllPositions)
    for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
      models.push_back({"positions " + std::to_string(int(positions)), tiny()});
      models.back().options.positions = positions, models.back().options.norm = norm;
      models.back().options.tied = norm == NormPlacement::kPost;
    }
  for (const auto& [name, o] : models) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Tensor ids = random_ids(2), full = model.forward(ids);
    for (const std::vector<Index>& chunks :
         {std::vector<Index>{3, 2, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {9}, {4, 0, 5}}) {
      KVCache cache = model.cache(2);
      CHECK(relative_distance(chunked(model, ids, cache, chunks), full) <= 1e-12);
    }
    const std::vector<Index> prompt = {3, 1, 4};
    const SampleOptions greedy{.greedy = true};  // 20 tokens exceed the context length 9
    CHECK(generated(model, prompt, 20, greedy) == by_full_passes(model, prompt, 20, greedy));
  }
}

TEST_CASE("cached logits have the same bits as the full pass, as no sum depends on other rows") {
  const NoGrad guard;
  const Index context = 400;  // more keys than one block of the attention kernel
  const Transformer model =
      random_model({.vocab = kVocab, .context = context, .attention = {.d_model = 48, .heads = 2}});
  const Tensor ids = random_ids(1, context), full = model.forward(ids);
  KVCache cache = model.cache();
  const Tensor got = chunked(model, ids, cache, {370, 13, 1, 1, 1, 1, 13});
  CHECK(got.to_vector<float>() == full.to_vector<float>());
}

TEST_CASE("generated tokens equal those of full passes, within the context and beyond it") {
  for (const Positions positions : kAllPositions)
    for (const DType dtype : {float32, float64}) {
      Transformer::Options o = tiny(dtype);
      o.positions = positions;
      const Transformer model = random_model(o);
      for (const SampleOptions& sample :
           {SampleOptions{.greedy = true}, SampleOptions{.temperature = 0.8, .top_k = 7}})
        for (const std::size_t prompt : {1u, 4u, 9u, 12u}) {
          CAPTURE(int(positions), dtype, sample.greedy, prompt);
          std::vector<Index> ids(prompt);
          std::iota(ids.begin(), ids.end(), 0);
          for (Index& id : ids) id = id * 7 % kVocab;
          CHECK(generated(model, ids, 20, sample) == by_full_passes(model, ids, 20, sample));
        }
    }
}

TEST_CASE("a cleared cache starts again and never reads its old contents") {
  const NoGrad guard;
  for (const Positions positions : {Positions::kLearned, Positions::kRope}) {
    Transformer::Options o = tiny();
    o.positions = positions;
    const Transformer model = random_model(o);
    const Tensor ids = random_ids(1), full = model.forward(ids);
    KVCache cache = model.cache();
    const Tensor nan = heed::autograd::full({1, 2, kContext, 4}, std::nan(""), float64);
    for (Index layer = 0; layer < 2; ++layer) cache.append(layer, nan, nan);
    CHECK(cache.length() == 0);
    cache.end_pass();
    CHECK(cache.length() == kContext);
    cache.clear();
    CHECK(cache.length() == 0);
    CHECK(relative_distance(chunked(model, ids, cache, {2, 1, 6}), full) <= 1e-12);
  }
}

TEST_CASE("a forward pass that throws does not change the cache") {
  const NoGrad guard;
  const Transformer model = random_model(tiny());
  const Tensor ids = random_ids(1), full = model.forward(ids);
  KVCache cache = model.cache();
  model.forward(slice(ids, 1, 0, 4), {.cache = &cache});
  for (const char* site : {"hook_embed", "blocks.1.attn.hook_q", "blocks.1.hook_resid_post",
                           "blocks.0.attn.hook_z", "blocks.1.attn.hook_pattern"}) {
    Probe probe;
    probe.replace(site, [](const Tensor&) -> Tensor { throw ValueError("the hook fails"); });
    CHECK_THROWS_WITH(model.forward(slice(ids, 1, 5, 9), {.probe = &probe, .cache = &cache}),
                      Contains("the hook fails"));
    CHECK(cache.length() == 4);
  }
  Probe misspelled;
  misspelled.record("blocks.1.attn.hook_x");
  CHECK_THROWS_WITH(model.forward(slice(ids, 1, 5, 9), {.probe = &misspelled, .cache = &cache}),
                    Contains("no forward pass reached 'blocks.1.attn.hook_x'"));
  CHECK_ERROR(ValueError, model.forward_from(1, zeros({1, 1, 8}, float64), {.cache = &cache}),
              "Transformer: a KV cache needs a pass through all blocks, got a pass from block 1");
  CHECK(cache.length() == 4);
  const Tensor rest = model.forward(slice(ids, 1, 4, 9), {.cache = &cache});
  CHECK(relative_distance(rest, slice(full, 1, 4, 9)) <= 1e-12);
}

TEST_CASE("left padding needs positions that do not count from the first key") {
  const NoGrad guard;
  const Tensor ids = random_ids(2);
  const std::vector<Index> lengths = {kContext - 2, kContext};
  const Tensor right = KeepMask::padding(lengths, kContext).tensor(),
               left = index_select(right, 3,
                                   from_data(std::vector<Index>{8, 7, 6, 5, 4, 3, 2, 1, 0}, {9}));
  for (const Positions positions : kAllPositions) {
    CAPTURE(int(positions));
    Transformer::Options o = tiny();
    o.positions = positions;
    const Transformer model = random_model(o);
    const auto logits = [&](const Tensor& keep) {
      return model.forward(ids, {.keep = KeepMask(keep)});
    };
    if (positions == Positions::kLearned || positions == Positions::kSinusoidal)
      CHECK_ERROR(ValueError, logits(left),
                  "Transformer: the keep-mask leaves out 2 keys at the start of one sequence and 0 "
                  "of another (left padding), but learned and sinusoidal positions count from the "
                  "first key; pad at the end (KeepMask::padding), or use rope, alibi or no "
                  "positions");
    else  // the same logits as those of the sequence without its padding
      CHECK(relative_distance(slice(slice(logits(left), 0, 0, 1), 1, 2, kContext),
                              model.forward(slice(slice(ids, 0, 0, 1), 1, 2, kContext))) <= 1e-12);
    CHECK(all(isfinite(slice(logits(right), 1, 0, 1))).item() == 1);
    // A key that no sequence may read is not padding.
    CHECK(all(isfinite(slice(logits(slice(left, 0, 0, 1)), 1, 2, 9))).item() == 1);
  }
}

TEST_CASE("for probe and keep-mask, cached and new tokens form one row of keys") {
  const NoGrad guard;
  Transformer::Options o = tiny();
  o.positions = Positions::kRope;
  const Transformer model = random_model(o);
  const Tensor ids = random_ids(2);
  // The first two tokens of sequence 0 are padding.
  Tensor keep = heed::autograd::full({2, 1, 1, kContext}, 1, bool8);
  fill_(slice(slice(keep, 0, 0, 1), 3, 0, 2), 0);
  Probe whole, parts;
  whole.record("blocks.1.attn.hook_pattern").record("blocks.1.attn.hook_k");
  parts.record("blocks.1.attn.hook_pattern").record("blocks.1.attn.hook_k");
  const Tensor full = model.forward(ids, {.probe = &whole, .keep = KeepMask(keep)});
  KVCache cache = model.cache(2);
  model.forward(slice(ids, 1, 0, 4), {.cache = &cache, .keep = KeepMask(slice(keep, 3, 0, 4))});
  const Tensor got = model.forward(slice(ids, 1, 4, 9),
                                   {.probe = &parts, .cache = &cache, .keep = KeepMask(keep)});
  CHECK(relative_distance(got, slice(full, 1, 4, 9)) <= 1e-12);
  const Tensor pattern = parts.value("blocks.1.attn.hook_pattern");
  CHECK(pattern.shape() == Shape{2, 2, 5, 9});
  CHECK(relative_distance(pattern, slice(whole.value("blocks.1.attn.hook_pattern"), 2, 4, 9)) <=
        1e-12);
  CHECK(relative_distance(parts.value("blocks.1.attn.hook_k"),
                          slice(whole.value("blocks.1.attn.hook_k"), 1, 4, 9)) <= 1e-12);
}

TEST_CASE("a cache allocates its memory once and does not move it") {
  const NoGrad guard;
  const Transformer model = random_model(tiny());
  const Tensor ids = random_ids(3), one = slice(ids, 1, 0, 1);
  const std::uint64_t before = heed::autograd::pool_stats().live_bytes;
  KVCache cache = model.cache(3);
  const std::uint64_t held = heed::autograd::pool_stats().live_bytes;
  // The cache has 2 layers, each with k and v of shape [3, 2, 9, 4] in float64. The memory pool
  // rounds sizes up.
  CHECK(held - before >= 2 * 2 * 3 * 2 * 9 * 4 * 8);
  CHECK(held - before < 2 * 2 * 2 * 3 * 2 * 9 * 4 * 8);
  const auto none = zeros({3, 2, 0, 4}, float64);
  const Tensor start = cache.append(0, none, none).k;
  for (Index i = 0; i < kContext; ++i) {
    model.forward(one, {.cache = &cache});
    const Tensor now = cache.append(0, none, none).k;
    CHECK(now.shares_storage(start));
    CHECK(now.shape() == Shape{3, 2, i + 1, 4});
  }
  CHECK_THROWS_AS(model.forward(one, {.cache = &cache}), ValueError);
  CHECK(heed::autograd::pool_stats().live_bytes - held < 1024);  // tensor handles only
}

TEST_CASE("errors of a cache state what to do") {
  const Transformer model = random_model(tiny());
  const Tensor ids = random_ids(1);
  KVCache cache = model.cache();
  CHECK_ERROR(ValueError, model.forward(ids, {.cache = &cache}),
              "KVCache: needs NoGrad: cached keys and values have no gradient history; run the "
              "forward pass under NoGrad");
  CHECK(cache.length() == 0);
  const NoGrad guard;
  model.forward(slice(ids, 1, 0, 7), {.cache = &cache});
  CHECK_THROWS_WITH(model.forward(slice(ids, 1, 0, 3), {.cache = &cache}),
                    "Transformer: has context 9, got 7 cached and 3 new tokens; give fewer "
                    "tokens, or call clear() on the KV cache to start again");
  CHECK_THROWS_WITH(model.forward(random_ids(1, 10), {.cache = &cache}),
                    "Transformer: needs ids [B, T] with T <= context 9, got [1, 10]");
  CHECK_ERROR(ShapeError, model.forward(random_ids(3, 1), {.cache = &cache}),
              "KVCache: needs k [1, 2, n, 4] and v [1, 2, n, 4], got [3, 2, 1, 4] and "
              "[3, 2, 1, 4]");
  const Transformer other = random_model(tiny(float32));
  CHECK_ERROR(DTypeError, other.forward(slice(ids, 1, 0, 1), {.cache = &cache}),
              "KVCache: needs float64, got float32");
  Transformer::Options deep = tiny();
  deep.layers = 3;
  CHECK_THROWS_WITH(random_model(deep).forward(slice(ids, 1, 0, 1), {.cache = &cache}),
                    "Transformer: has 3 layers, but its KV cache has 2; create the cache with "
                    "model.cache(batch)");
  const Tensor k = zeros({1, 2, 3, 4}, float64);
  CHECK_THROWS_WITH(cache.append(0, k, k),
                    "KVCache: has capacity 9, got 7 cached and 3 new tokens; call clear() to start "
                    "again");
  CHECK_THROWS_WITH(cache.append(2, k, k), "KVCache: has layers 0 to 1, got layer 2");
  CHECK_THROWS_AS(model.cache(-1), ShapeError);
  CHECK(cache.length() == 7);
}

TEST_CASE("a cache needs causal self-attention outside training") {
  const NoGrad guard;
  const std::string only =
      "MultiHeadAttention: a KV cache needs causal self-attention outside "
      "training, got ";
  KVCache cache({.heads = 2, .capacity = 4, .d_head = 2});
  const Tensor x = zeros({1, 3, 4}), memory = zeros({1, 3, 4});
  MultiHeadAttention::Options o{.d_model = 4, .heads = 2, .causal = true};
  const MultiHeadAttention causal(o);
  CHECK_THROWS_WITH(causal(x, {.training = true, .cache = &cache}), only + "training");
  CHECK_THROWS_WITH(causal.forward(x, memory, memory, {.cache = &cache}), only + "cross attention");
  o.causal = false;
  CHECK_THROWS_WITH(MultiHeadAttention(o)(x, {.cache = &cache}),
                    only + "attention without a causal mask");
  CHECK(cache.length() == 0);
}

TEST_CASE("rope with an offset rotates by absolute positions") {
  Generator g(4);
  const Tensor x = randn({2, 7, 6}, float64, g);
  const Tensor y = rope(slice(x, 1, 3, 7), {.base = 50, .offset = 3});
  for (Index t = 0; t < 4; ++t)
    for (Index i = 0; i < 3; ++i) {
      const double angle = double(3 + t) * std::pow(50, -2 * double(i) / 6);
      const auto at = [t](const Tensor& z, Index skip, Index c) {
        return select(select(select(z, 0, 1), 0, t + skip), 0, c).item();
      };
      const double u = at(x, 3, i), v = at(x, 3, i + 3);
      CHECK(at(y, 0, i) == Approx(u * std::cos(angle) - v * std::sin(angle)).margin(1e-14));
      CHECK(at(y, 0, i + 3) == Approx(u * std::sin(angle) + v * std::cos(angle)).margin(1e-14));
    }
  CHECK_THROWS_WITH(rope(x, {.offset = -1}), "rope: needs an offset from 0 to 16777216, got -1");
}

}  // namespace
