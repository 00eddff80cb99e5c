// Tests of circuits from the weights, against the definitions, with full matrices.
#include "nn/study/circuits.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/autograd.h"
#include "nn/study/eigenvalues.h"
#include "nn/study/forward_passes.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::testing::largest;
using W = AttentionWeights;

// Returns |x| (Frobenius).
double size(const Tensor& x) { return std::sqrt(sum(x * x).item()); }

// The quantities of Circuits, computed from their definitions with full matrices in float64.
struct Definitions {
  explicit Definitions(const Transformer& m) : o(m.options) {
    for (const NamedTensor& p : parameters(m)) all[p.name] = to(p.tensor, float64);
    for (const Block& b : m.blocks)
      weights.push_back(convert(b.attn.weights, b.attn.options, AttentionForm::kPerHead));
    E = all["tok.weight"];
    const Tensor head = o.tied ? E : all["head.weight"];
    U = head - mean(head, {0});
    if (m.pos) P = all["pos.weight"];
    if (m.sinusoid.defined()) P = to(m.sinusoid, float64);
  }

  // Returns a parameter; undefined if the model does not have it.
  Tensor parameter(const std::string& name) const {
    return all.contains(name) ? all.at(name) : Tensor();
  }
  static Tensor unit(const Tensor& x) { return x / sqrt(mean(x * x, {-1}, true) + 1e-5); }
  Tensor centered(const Tensor& x) const {
    return o.norm_kind == NormKind::kLayerNorm ? x - mean(x, {-1}, true) : x;
  }
  Tensor linear_norm(const std::string& name, const Tensor& x) const {
    return o.norm == NormPlacement::kNone ? x : centered(x) * parameter(name + ".weight");
  }
  Tensor norm(std::int64_t layer, const Tensor& x) const {
    if (o.norm == NormPlacement::kNone) return x;
    const std::string name = "blocks." + std::to_string(layer) + ".ln1";
    const Tensor y = unit(centered(x)) * parameter(name + ".weight");
    const Tensor bias = parameter(name + ".bias");
    return bias.defined() ? y + bias : y;
  }
  Tensor tokens(std::int64_t layer) const {
    return norm(layer, P.defined() ? E + mean(P, {0}) : E);
  }
  // Returns a head's part of a parameter; undefined if the model does not have it.
  Tensor part(Tensor W::*w, const HeadIndex& h) const {
    const Tensor& x = weights[std::size_t(h.layer)].*w;
    const bool shared = w == &W::W_K || w == &W::W_V || w == &W::b_K || w == &W::b_V;
    const std::int64_t group = shared ? o.attention.heads / o.attention.kv_heads : 1;
    return x.defined() ? to(select(x, 0, h.head / group), float64) : x;
  }
  Tensor project(const HeadIndex& h, const Tensor& x, Tensor W::*w, Tensor W::*b) const {
    const Tensor y = matmul(x, part(w, h)), bias = b ? part(b, h) : Tensor();
    return bias.defined() ? y + bias : y;
  }
  Tensor of_head(const HeadIndex& h, const char* name) const {
    return parameter("blocks." + std::to_string(h.layer) + ".attn." + name);
  }
  Tensor query(const HeadIndex& h, const Tensor& x, bool bias) const {
    const Tensor q = project(h, x, &W::W_Q, bias ? &W::b_Q : nullptr);
    return o.attention.qk_norm ? unit(q) * of_head(h, "q_norm.weight") : q;
  }
  Tensor key(const HeadIndex& h, const Tensor& x, bool bias) const {
    const Tensor k = project(h, x, &W::W_K, bias ? &W::b_K : nullptr);
    return o.attention.qk_norm ? unit(k) * of_head(h, "k_norm.weight") : k;
  }
  // Returns the scores of queries that are `distance` tokens after the keys.
  Tensor scores(const HeadIndex& h, const Tensor& q, const Tensor& k, std::int64_t distance) const {
    const std::int64_t width = o.attention.d_head, half = width / 2;
    const Tensor R = eye(width, -1, float64);
    double* r = R.mutable_data<double>();
    for (std::int64_t i = 0; i < half && o.attention.rope; ++i) {
      const double angle = double(distance) * std::pow(10000, -2 * double(i) / double(width));
      const std::int64_t j = i + half;
      r[i * width + i] = r[j * width + j] = std::cos(angle);
      r[i * width + j] = std::sin(angle), r[j * width + i] = -std::sin(angle);
    }
    const double* number = std::get_if<double>(&o.attention.scale);
    const Tensor learned = of_head(h, "scale");
    const double scale = number              ? *number
                         : learned.defined() ? learned.at({h.head})
                                             : 1 / std::sqrt(double(width));
    return matmul(matmul(q, R), mT(k)) * scale;
  }
  Tensor mean_scores(const HeadIndex& h, const Tensor& q, const Tensor& k) const {
    Tensor total = scores(h, q, k, 1);
    for (std::int64_t d = 2; d < o.context; ++d) total = total + scores(h, q, k, d);
    return total / double(o.context - 1);
  }
  Tensor written(const HeadIndex& h, const Tensor& x, bool bias) const {
    const double* number = std::get_if<double>(&o.residual_scale);
    return matmul(project(h, x, &W::W_V, bias ? &W::b_V : nullptr), part(&W::W_O, h)) *
           (number ? *number : 1 / std::sqrt(2 * double(o.layers)));
  }
  Tensor logits(const Tensor& stream) const { return matmul(linear_norm("ln", stream), mT(U)); }

  Transformer::Options o;
  std::map<std::string, Tensor> all;
  std::vector<AttentionWeights> weights;
  Tensor E, U, P;
};

// Checks that the map has these entries, within 1e-11 of its largest magnitude.
void check_map(const FactoredMap& map, const Tensor& expected) {
  CHECK(largest(expected) > 0);
  CHECK(largest(map.full() - expected) <= 1e-11 * largest(expected));
}

std::vector<NamedModel> all_models() {
  Transformer::Options base{.vocab = 7,
                            .classes = 6,
                            .layers = 2,
                            .context = 5,
                            .attention = {.d_model = 8, .heads = 4, .dtype = float64}};
  std::vector<NamedModel> models = variant_models(base);
  for (const Positions p : kAllPositions) {
    Transformer::Options o = base;
    o.positions = p;
    models.push_back({enum_name(p), o});
  }
  Transformer::Options o = base;
  o.norm = NormPlacement::kNone, o.attention.bias = false;
  models.push_back({"no norm", o});
  o = base, o.classes = 7, o.tied = true, o.attention.dtype = float32;
  models.push_back({"tied, float32", o});
  o = base, o.norm_bias = false, o.mlp = false, o.attention.scale = 0.7;
  models.push_back({"no MLP", o});
  return models;
}

TEST_CASE("maps of heads equal the definitions") {
  const NoGrad guard;
  for (const auto& [name, options] : all_models()) {
    CAPTURE(name);
    const Transformer model = random_model(options);
    const Circuits circuits(model);
    const Definitions d(model);
    for (const HeadIndex h : {HeadIndex{0, 1}, HeadIndex{1, 3}}) {
      const Tensor x = d.tokens(h.layer);
      for (const std::int64_t distance : {0, 3})
        check_map(circuits.qk(h, distance),
                  d.scores(h, d.query(h, x, true), d.key(h, x, true), distance));
      check_map(circuits.ov(h), d.logits(d.written(h, x, true)));
      if (d.P.defined()) {
        const Tensor p = d.norm(h.layer, d.P + mean(d.E, {0}));
        check_map(circuits.positions(h), d.scores(h, d.query(h, p, true), d.key(h, p, true), 0));
      } else {
        CHECK_THROWS_WITH(circuits.positions(h), Contains("needs learned or sinusoidal"));
      }
      CHECK(circuits.curve(h).mean.size() == (options.positions == Positions::kRope ? 5 : 0));
      CHECK(std::isnan(circuits.slope(h)) == (options.positions != Positions::kAlibi));
    }
    const HeadIndex a{0, 2}, b{1, 1};
    const Tensor x = d.tokens(1),
                 seen = d.linear_norm("blocks.1.ln1", d.written(a, d.tokens(0), false));
    check_map(circuits.composed(Receiver::kKey, a, b),
              d.mean_scores(b, d.query(b, x, false), d.key(b, seen, false)));
    check_map(circuits.composed(Receiver::kQuery, a, b, 2),
              d.scores(b, d.query(b, seen, false), d.key(b, x, false), 2));
    check_map(circuits.composed(Receiver::kValue, a, b), d.logits(d.written(b, seen, false)));
  }
}

TEST_CASE("the distance curve has the mean and the deviation over all pairs of tokens") {
  const Transformer model = random_model({.vocab = 6,
                                          .layers = 1,
                                          .context = 9,
                                          .attention = {.d_model = 8, .heads = 2},
                                          .positions = Positions::kRope});
  const Circuits circuits(model);
  const DistanceCurve curve = circuits.curve({0, 1});
  REQUIRE(curve.mean.size() == 9);
  for (std::int64_t d = 0; d < 9; ++d) {
    const Tensor map = circuits.qk({0, 1}, d).full();
    CHECK(curve.mean[std::size_t(d)] == Approx(mean(map).item()).epsilon(1e-11));
    CHECK(curve.deviation[std::size_t(d)] ==
          Approx(std::sqrt(var(map, {}, {.correction = 0}).item())).epsilon(1e-11));
    CHECK(curve.mean[std::size_t(d)] <= curve.mean[std::size_t(*curve.maximum())]);
  }
}

// Without a soft cap, the scores of layer 0 are the QK map.
TEST_CASE("the QK map has the scores of a model in which it leaves out nothing") {
  for (const auto& [name, options] : all_models()) {
    if (options.attention.soft_cap > 0) continue;
    CAPTURE(name);
    Transformer::Options o = options;
    const bool table = o.positions == Positions::kLearned || o.positions == Positions::kSinusoidal;
    if (table) o.context = 1;  // the maps use the mean position, here the only one
    o.attention.dtype = float64;
    const Transformer model = random_model(o);
    const Circuits circuits(model);
    const Tensor ids =
        table ? reshape(arange(7), {7, 1}) : heed::autograd::tensor({{4, 1}, {2, 6}}, int64);
    const std::int64_t n = ids.size(1);
    const Tensor scores = record_forward(model, ids, {"attn.hook_attn_scores"}).at[0][0];
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t row = 0; row < ids.size(0); ++row)
        for (std::int64_t q = 0; q < n; ++q)
          for (std::int64_t k = 0; k <= q; ++k) {
            if (options.attention.window > 0 && q - k >= options.attention.window) continue;
            const Tensor map = circuits.qk({0, h}, q - k).full();
            const double slope = circuits.slope({0, h});
            const double expected =
                double(map.at({std::int64_t(ids.at({row, q})), std::int64_t(ids.at({row, k}))})) -
                (std::isnan(slope) ? 0 : slope * double(q - k));
            CHECK(double(scores.at({row, h, q, k})) == Approx(expected).margin(1e-12));
          }
  }
}

TEST_CASE("without a norm, the OV map has the logits that a head adds") {
  const Transformer model =
      random_model({.vocab = 6,
                    .layers = 1,
                    .context = 3,
                    .attention = {.d_model = 8, .heads = 1, .out_bias = false, .dtype = float64},
                    .mlp = false,
                    .positions = Positions::kNone,
                    .norm = NormPlacement::kNone});
  const Tensor ids = reshape(arange(6), {6, 1});
  const Tensor added = squeeze(model(ids) - linear(model.tok(ids), model.head->weight), 1);
  const Tensor ov = Circuits(model).ov({0, 0}).full();
  CHECK(allclose(added - mean(added, {1}, true), ov, 1e-11, 1e-12));
}

TEST_CASE("summaries of maps") {
  Generator g(4);
  for (const std::int64_t tokens : {3, 9}) {
    const FactoredMap map{randn({11, 5}, float64, g), randn({10, 5}, float64, g)};
    const Tensor part = slice(slice(map.full(), 0, 0, tokens), 1, 0, tokens);
    double total = 0, magnitudes = 0, hits = 0;
    for (const auto& x : eigenvalues(part)) total += x.real(), magnitudes += std::abs(x);
    for (std::int64_t i = 0; i < tokens; ++i)
      hits += double(argmax(select(part, 0, i), 0).item()) == double(i);
    const MapSummary s = summarize(map, tokens);
    CHECK(s.eigenvalues == Approx(total / magnitudes).epsilon(1e-12));
    CHECK(s.diagonal == hits / double(tokens));
  }
  const Tensor one = eye(6, -1, float64), none = zeros({6, 2}, float64);
  CHECK(summarize({one, one}, 6).eigenvalues == Approx(1));
  CHECK(summarize({one, one}, 6).diagonal == 1);
  CHECK(summarize({one, one * -1}, 6).eigenvalues == Approx(-1));
  CHECK(summarize({one, one * -1}, 6).diagonal == 0);
  CHECK(std::isnan(summarize({none, none}, 6).eigenvalues));
  CHECK_THROWS_WITH(summarize({one, one}, 7), Contains("got 7 for a map of"));
}

TEST_CASE("largest entries of a map that is larger than a block") {
  Generator g(8);
  const FactoredMap map{randn({70, 3}, float64, g), randn({90000, 3}, float64, g)};
  std::vector<double> sizes;
  for (const double x : abs(map.full()).to_vector<double>()) sizes.push_back(x);
  std::ranges::nth_element(sizes, sizes.begin() + 20, std::greater{});
  std::ranges::sort(sizes.begin(), sizes.begin() + 20, std::greater{});
  const auto entries = largest_entries(map, 20);
  REQUIRE(entries.size() == 20);
  for (std::size_t k = 0; k < 20; ++k) {
    CHECK(std::abs(entries[k].value) == Approx(sizes[k]).epsilon(1e-12));
    const double value =
        sum(select(map.rows, 0, entries[k].row) * select(map.columns, 0, entries[k].column)).item();
    CHECK(entries[k].value == Approx(value));
  }
  CHECK(largest_entries({ones({2, 1}, float64), ones({2, 1}, float64)}, 9).size() == 4);
}

TEST_CASE("composition scores equal products of full matrices") {
  for (const auto& [name, options] : all_models()) {
    CAPTURE(name);
    const Transformer model = random_model(options);
    const Definitions d(model);
    const auto scores = Circuits(model).composition_scores(3);
    CHECK(scores.size() == 4 * 4 * 3);
    for (const CompositionScore& s : scores) {
      const auto of_qk = [&](const HeadIndex& h) {
        return matmul(d.part(&W::W_Q, h), mT(d.part(&W::W_K, h)));
      };
      const auto of_ov = [&](const HeadIndex& h) {
        return matmul(d.part(&W::W_V, h), d.part(&W::W_O, h));
      };
      const Tensor a = of_ov(s.a), b = s.kind == Receiver::kValue ? of_ov(s.b) : of_qk(s.b);
      const Tensor product = s.kind == Receiver::kKey ? matmul(b, mT(a)) : matmul(a, b);
      CHECK(s.score == Approx(size(product) / (size(a) * size(b))).epsilon(1e-11));
      CHECK(s.random_mean > 0);
      CHECK(s.random_mean < 1);
    }
  }
}

TEST_CASE("the random mean of composition scores is that of full random matrices") {
  const Transformer model =
      random_model({.vocab = 5,
                    .layers = 2,
                    .context = 4,
                    .attention = {.d_model = 12, .heads = 2, .d_head = 4, .d_value = 3}});
  Generator g(21);
  const auto drawn = [&](std::int64_t width) {
    return matmul(randn({12, width}, float64, g), randn({width, 12}, float64, g));
  };
  double q = 0, v = 0;
  for (int i = 0; i < 4000; ++i) {
    const Tensor a = drawn(3), qk = drawn(4), ov = drawn(3);
    q += size(matmul(a, qk)) / (size(a) * size(qk)) / 4000;
    v += size(matmul(a, ov)) / (size(a) * size(ov)) / 4000;
  }
  for (const CompositionScore& s : Circuits(model).composition_scores(4000))
    CHECK(s.random_mean == Approx(s.kind == Receiver::kValue ? v : q).epsilon(0.02));
}

TEST_CASE("circuits refuse models and heads that they cannot describe") {
  const auto with = [](auto change) {
    Transformer::Options o{
        .vocab = 5, .layers = 2, .context = 4, .attention = {.d_model = 8, .heads = 2}};
    change(o);
    return random_model(o);
  };
  CHECK_THROWS_WITH(Circuits(with([](auto& o) { o.norm = NormPlacement::kPost; })),
                    Contains("trained with norm pre or none"));
  CHECK_THROWS_WITH(Circuits(with([](auto& o) { o.classes = 6; })), Contains("at most as many"));
  const Circuits circuits(with([](auto& o) { o.positions = Positions::kRope; }));
  CHECK_THROWS_WITH(circuits.qk({0, 2}), Contains("L0H2"));
  CHECK_THROWS_WITH(circuits.qk({0, 0}, 4), Contains("needs a distance from 0 to 3"));
  CHECK_THROWS_WITH(circuits.composed(Receiver::kKey, {1, 0}, {1, 1}),
                    Contains("of an earlier layer than L1H1"));
}

}  // namespace
