// Tests of circuits from the weights, against plain loops over the definitions.
#include "nn/study/circuits.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/autograd.h"
#include "nn/study/eigenvalues.h"
#include "nn/study/forward_passes.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

Rows rows_of(const Tensor& x) {
  Rows rows;
  for (std::int64_t i = 0; i < x.size(0); ++i) rows.push_back(to_doubles(select(x, 0, i)));
  return rows;
}

double dot(const Row& a, const Row& b) {
  double total = 0;
  for (std::size_t k = 0; k < a.size(); ++k) total += a[k] * b[k];
  return total;
}

// Returns x W + bias for one row x. W is [in, out]; the bias may be empty.
Row times(const Row& x, const Rows& w, const Row& bias = {}) {
  Row y = bias.empty() ? Row(w[0].size()) : bias;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * w[i][j];
  return y;
}

double size(const Tensor& x) { return std::sqrt(sum(x * x).item()); }

Row mean_row(const Rows& rows) {
  Row total(rows[0].size());
  for (const Row& row : rows)
    for (std::size_t j = 0; j < row.size(); ++j) total[j] += row[j] / double(rows.size());
  return total;
}

Row sum_of(Row a, const Row& b, double factor = 1) {
  for (std::size_t j = 0; j < a.size(); ++j) a[j] += factor * b[j];
  return a;
}

// The definitions, as loops over plain numbers.
class Loops {
 public:
  explicit Loops(const Transformer& m) : o(m.options) {
    for (const NamedTensor& p : parameters(m)) {
      Tensor x = p.tensor;
      if (x.rank() == 0) x = reshape(x, {1});
      all[p.name] = x;
    }
    for (const Block& b : m.blocks)
      weights.push_back(convert(b.attn.weights, b.attn.options, AttentionForm::kPerHead));
    E = rows_of(m.tok.weight);
    U = o.tied ? E : rows_of(m.head->weight);
    const Row mean = mean_row(U);
    for (Row& u : U) u = sum_of(u, mean, -1);
    if (m.pos) P = rows_of(m.pos->weight);
    if (m.sinusoid.defined()) P = rows_of(m.sinusoid);
  }

  Row vector(const std::string& name) const {
    const auto found = all.find(name);
    return found == all.end() ? Row() : to_doubles(found->second);
  }
  static double rms(const Row& x) { return std::sqrt(dot(x, x) / double(x.size()) + 1e-5); }
  Row centered(Row x) const {
    if (o.norm_kind != NormKind::kLayerNorm) return x;
    return sum_of(x, Row(x.size(), dot(x, Row(x.size(), 1)) / double(x.size())), -1);
  }
  Row linear_norm(const std::string& name, Row x) const {
    if (o.norm == NormPlacement::kNone) return x;
    x = centered(x);
    const Row w = vector(name + ".weight");
    for (std::size_t j = 0; j < x.size(); ++j) x[j] *= w[j];
    return x;
  }
  Row norm(std::int64_t layer, const Row& x) const {
    if (o.norm == NormPlacement::kNone) return x;
    const std::string name = "blocks." + std::to_string(layer) + ".ln1";
    Row y = linear_norm(name, x);
    const double size = rms(centered(x));
    for (double& v : y) v /= size;
    const Row bias = vector(name + ".bias");
    return bias.empty() ? y : sum_of(y, bias);
  }
  Row token(std::int64_t layer, std::size_t i) const {
    return norm(layer, P.empty() ? E[i] : sum_of(E[i], mean_row(P)));
  }
  // Returns a head's part of a parameter; undefined if the model does not have it.
  Tensor part(Tensor AttentionWeights::*w, const HeadIndex& h) const {
    using A = AttentionWeights;
    const Tensor& x = weights[std::size_t(h.layer)].*w;
    const bool shared = w == &A::W_K || w == &A::W_V || w == &A::b_K || w == &A::b_V;
    const std::int64_t group = shared ? o.attention.heads / o.attention.kv_heads : 1;
    return x.defined() ? to(select(x, 0, h.head / group), float64) : x;
  }
  Rows weight(Tensor AttentionWeights::*w, const HeadIndex& h) const { return rows_of(part(w, h)); }
  Row bias(Tensor AttentionWeights::*b, const HeadIndex& h) const {
    const Tensor x = part(b, h);
    return x.defined() ? to_doubles(x) : Row();
  }
  double scale(const HeadIndex& h) const {
    const std::string name = "blocks." + std::to_string(h.layer) + ".attn.scale";
    return all.contains(name) ? vector(name)[std::size_t(h.head)]
                              : 1 / std::sqrt(double(o.attention.d_head));
  }
  Row side_norm(const char* which, const HeadIndex& h, Row x) const {
    if (!o.attention.qk_norm) return x;
    const Row w = vector("blocks." + std::to_string(h.layer) + ".attn." + which + ".weight");
    const double size = rms(x);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] *= w[j] / size;
    return x;
  }
  Row query(const HeadIndex& h, const Row& x, bool with_bias) const {
    return side_norm("q_norm", h,
                     times(x, weight(&AttentionWeights::W_Q, h),
                           with_bias ? bias(&AttentionWeights::b_Q, h) : Row()));
  }
  Row key(const HeadIndex& h, const Row& x, bool with_bias) const {
    return side_norm("k_norm", h,
                     times(x, weight(&AttentionWeights::W_K, h),
                           with_bias ? bias(&AttentionWeights::b_K, h) : Row()));
  }
  // Returns the score of a query that is `distance` tokens after a key.
  double score(const HeadIndex& h, const Row& q, const Row& k, std::int64_t distance) const {
    if (!o.attention.rope) return scale(h) * dot(q, k);
    const std::size_t half = q.size() / 2;
    double total = 0;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = double(distance) * std::pow(10000, -2 * double(i) / double(q.size()));
      const double c = std::cos(angle), s = std::sin(angle);
      total += (q[i] * c - q[i + half] * s) * k[i] + (q[i] * s + q[i + half] * c) * k[i + half];
    }
    return scale(h) * total;
  }
  double mean_score(const HeadIndex& h, const Row& q, const Row& k) const {
    if (!o.attention.rope) return score(h, q, k, 0);
    double total = 0;
    for (std::int64_t d = 1; d < o.context; ++d) total += score(h, q, k, d);
    return total / double(o.context - 1);
  }
  Row written(const HeadIndex& h, const Row& x, bool with_bias) const {
    const Row v = times(x, weight(&AttentionWeights::W_V, h),
                        with_bias ? bias(&AttentionWeights::b_V, h) : Row());
    Row w = times(v, weight(&AttentionWeights::W_O, h));
    const double* number = std::get_if<double>(&o.residual_scale);
    for (double& y : w) y *= number ? *number : 1 / std::sqrt(2 * double(o.layers));
    return w;
  }
  double logit(const Row& stream, std::size_t c) const {
    return dot(linear_norm("ln", stream), U[c]);
  }
  double qk(const HeadIndex& h, std::size_t i, std::size_t j, std::int64_t distance) const {
    return score(h, query(h, token(h.layer, i), true), key(h, token(h.layer, j), true), distance);
  }

  Transformer::Options o;
  std::map<std::string, Tensor> all;
  std::vector<AttentionWeights> weights;
  Rows E, U, P;
};

// Checks that the map has these entries, within 1e-11 of its largest magnitude.
template <class F>
void check_map(const FactoredMap& map, F&& entry) {
  const Rows found = rows_of(map.full());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    for (std::size_t j = 0; j < found[i].size(); ++j) {
      const double expected = entry(i, j);
      largest = std::max(largest, std::abs(expected));
      difference = std::max(difference, std::abs(expected - found[i][j]));
    }
  CHECK(largest > 0);
  CHECK(difference <= 1e-11 * largest);
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

TEST_CASE("maps of heads equal plain loops over the definitions") {
  for (const auto& [name, options] : all_models()) {
    CAPTURE(name);
    const Transformer model = random_model(options);
    const Circuits circuits(model);
    Loops loops(model);
    if (const double* number = std::get_if<double>(&options.attention.scale))
      for (std::int64_t l = 0; l < options.layers; ++l)
        loops.all["blocks." + std::to_string(l) + ".attn.scale"] = full({4}, *number, float64);
    for (const HeadIndex h : {HeadIndex{0, 1}, HeadIndex{1, 3}}) {
      for (const std::int64_t d : {0, 3})
        check_map(circuits.qk(h, d),
                  [&](std::size_t i, std::size_t j) { return loops.qk(h, i, j, d); });
      check_map(circuits.ov(h), [&](std::size_t i, std::size_t c) {
        return loops.logit(loops.written(h, loops.token(h.layer, i), true), c);
      });
      if (!loops.P.empty())
        check_map(circuits.positions(h), [&](std::size_t p, std::size_t q) {
          const auto at = [&](std::size_t i) {
            return loops.norm(h.layer, sum_of(loops.P[i], mean_row(loops.E)));
          };
          return loops.score(h, loops.query(h, at(p), true), loops.key(h, at(q), true), 0);
        });
      else
        CHECK_THROWS_WITH(circuits.positions(h), Contains("needs learned or sinusoidal"));
      CHECK(circuits.curve(h).mean.size() == (options.positions == Positions::kRope ? 5 : 0));
      CHECK(std::isnan(circuits.slope(h)) == (options.positions != Positions::kAlibi));
    }
    const HeadIndex a{0, 2}, b{1, 1};
    const auto seen = [&](std::size_t i) {
      return loops.linear_norm("blocks.1.ln1", loops.written(a, loops.token(0, i), false));
    };
    check_map(circuits.composed(Composition::kK, a, b), [&](std::size_t i, std::size_t j) {
      return loops.mean_score(b, loops.query(b, loops.token(1, i), false),
                              loops.key(b, seen(j), false));
    });
    check_map(circuits.composed(Composition::kQ, a, b, 2), [&](std::size_t i, std::size_t j) {
      return loops.score(b, loops.query(b, seen(i), false), loops.key(b, loops.token(1, j), false),
                         2);
    });
    check_map(circuits.composed(Composition::kV, a, b), [&](std::size_t i, std::size_t c) {
      return loops.logit(loops.written(b, seen(i), false), c);
    });
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
    if (table) o.context = 1;  // the mean of one position is this position
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
  CHECK_THROWS_WITH(summarize({one, one}, 7), Contains("at least 7 rows"));
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
    const Loops loops(model);
    const auto scores = composition_scores(model, 3);
    CHECK(scores.size() == 4 * 4 * 3);
    for (const CompositionScore& s : scores) {
      const auto of_qk = [&](const HeadIndex& h) {
        return matmul(loops.part(&AttentionWeights::W_Q, h),
                      mT(loops.part(&AttentionWeights::W_K, h)));
      };
      const auto of_ov = [&](const HeadIndex& h) {
        return matmul(loops.part(&AttentionWeights::W_V, h), loops.part(&AttentionWeights::W_O, h));
      };
      const Tensor a = of_ov(s.a), b = s.kind == Composition::kV ? of_ov(s.b) : of_qk(s.b);
      const Tensor product = s.kind == Composition::kK ? matmul(b, mT(a)) : matmul(a, b);
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
  for (const CompositionScore& s : composition_scores(model, 4000))
    CHECK(s.random_mean == Approx(s.kind == Composition::kV ? v : q).epsilon(0.02));
}

TEST_CASE("circuits refuse models and heads that they cannot describe") {
  const auto with = [](auto change) {
    Transformer::Options o{
        .vocab = 5, .layers = 2, .context = 4, .attention = {.d_model = 8, .heads = 2}};
    change(o);
    return random_model(o);
  };
  CHECK_THROWS_WITH(Circuits(with([](auto& o) { o.norm = NormPlacement::kPost; })),
                    Contains("after each sum"));
  CHECK_THROWS_WITH(Circuits(with([](auto& o) { o.classes = 6; })), Contains("at most as many"));
  const Circuits circuits(with([](auto& o) { o.positions = Positions::kRope; }));
  CHECK_THROWS_WITH(circuits.qk({0, 2}), Contains("L0H2"));
  CHECK_THROWS_WITH(circuits.qk({0, 0}, 4), Contains("needs a distance from 0 to 3"));
  CHECK_THROWS_WITH(circuits.composed(Composition::kK, {1, 0}, {1, 1}), Contains("before L1H1"));
}

}  // namespace
