#include "nn/study/circuits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "nn/study/eigenvalues.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kBlockCells = 1 << 22;  // largest part of a map that is held at once

// Calls f(first, block) for blocks of rows of a map [m, n]; `first` is the row where a block
// begins.
template <class F>
void for_each_block(const Tensor& rows, const Tensor& columns, F&& f) {
  const std::int64_t m = rows.size(0);
  const std::int64_t height = std::max<std::int64_t>(1, kBlockCells / columns.size(0));
  for (std::int64_t first = 0; first < m; first += height)
    f(first, matmul(slice(rows, 0, first, std::min(m, first + height)), mT(columns)));
}

// Returns a copy of the model in float64, with weights by head.
Transformer by_head_in_float64(const Transformer& model) {
  const Transformer from = convert(clone(model), AttentionForm::kPerHead);
  Transformer copy = with_parameters<Transformer>(from.options, float64, values_in_float64(from));
  if (model.sinusoid.defined()) copy.sinusoid = to(model.sinusoid, float64);
  return copy;
}

// A product x y^T of matrices [d_model, r].
struct Product {
  Tensor x, y;
};
// The products of a head: W_QK for kQuery, its transpose for kKey, and W_OV for kValue.
using Products = std::array<Product, 3>;
Products products_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o) {
  return {{{q, k}, {k, q}, {v, o}}};
}

// Returns |x m y^T| (Frobenius) for x [d, r], m [r, t] and y [d, t], without a matrix [d, d].
double norm_of_product(const Tensor& x, const Tensor& m, const Tensor& y) {
  const Tensor squares = matmul(matmul(mT(x), x), m) * matmul(m, matmul(mT(y), y));
  return std::sqrt(std::max(0.0, sum(squares).item()));
}
double norm(const Product& p) { return norm_of_product(p.x, eye(p.x.size(1), -1, float64), p.y); }

double composition_score(const Product& a, const Product& b) {
  return norm_of_product(a.x, matmul(mT(a.y), b.x), b.y) / (norm(a) * norm(b));
}

}  // namespace

MapSummary summarize(const FactoredMap& map, std::int64_t tokens) {
  check(tokens > 0 && map.rows.size(0) >= tokens && map.columns.size(0) >= tokens, "summarize",
        "needs at least 1 token, and at most as many as the map has rows and columns, got ", tokens,
        " for a map of ", map.rows.size(0), " x ", map.columns.size(0));
  const NoGrad guard;
  const Tensor rows = slice(map.rows, 0, 0, tokens), columns = slice(map.columns, 0, 0, tokens);
  std::complex<double> total = 0;
  double magnitudes = 0;
  for (const std::complex<double>& x :
       eigenvalues(rows.size(1) < tokens ? matmul(mT(columns), rows) : matmul(rows, mT(columns))))
    total += x, magnitudes += std::abs(x);
  std::int64_t on_diagonal = 0;
  for_each_block(rows, columns, [&](std::int64_t first, const Tensor& block) {
    for (const std::int64_t largest : argmax(block, 1).to_vector<std::int64_t>())
      on_diagonal += largest == first++;
  });
  return {total.real() / magnitudes, double(on_diagonal) / double(tokens)};
}

std::vector<MapEntry> largest_entries(const FactoredMap& map, std::size_t count) {
  const NoGrad guard;
  std::vector<MapEntry> entries;
  const std::int64_t width = map.columns.size(0);
  const auto larger = [](const MapEntry& x, const MapEntry& y) {
    return std::abs(x.value) > std::abs(y.value);
  };
  for_each_block(map.rows, map.columns, [&](std::int64_t first, const Tensor& block) {
    std::int64_t at = first * width;
    for (const double value : block.to_vector<double>()) {
      entries.push_back({at / width, at % width, value}), ++at;
      if (entries.size() < 2 * count + 1024) continue;
      std::ranges::nth_element(entries, entries.begin() + std::ptrdiff_t(count), larger);
      entries.resize(count);
    }
  });
  std::ranges::stable_sort(entries, larger);
  entries.resize(std::min(entries.size(), count));
  return entries;
}

std::optional<std::int64_t> DistanceCurve::maximum() const {
  if (mean.empty()) return {};
  return std::ranges::max_element(mean) - mean.begin();
}

Circuits::Circuits(const Transformer& model)
    : model_([&] {
        const NoGrad guard;
        return by_head_in_float64(model);
      }()) {
  const Transformer::Options& o = model.options;
  check_separable(model, "Circuits");
  check<ValueError>(o.classes <= o.vocab, "Circuits",
                    "needs at most as many classes as tokens, got ", o.classes, " classes and ",
                    o.vocab, " tokens");
  const NoGrad guard;
  Tensor x = model_.tok.weight;
  const Tensor table = model_.pos ? model_.pos->weight : model_.sinusoid;
  if (table.defined()) x = x + mean(table, {0});
  for (const Block& block : model_.blocks) read_.push_back(block.ln1 ? (*block.ln1)(x) : x);
}

const MultiHeadAttention& Circuits::at(const HeadIndex& h) const {
  check_component("Circuits", h, options().layers, options().attention.heads);
  return model_.blocks[std::size_t(h.layer)].attn;
}

Tensor Circuits::read(Receiver::Kind kind, const HeadIndex& h, const Tensor& x, bool bias) const {
  const MultiHeadAttention& attn = at(h);
  const Tensor y = project({kind, h.layer, h.head}, x, attn.weights, attn.options, bias);
  if (kind == Receiver::kKey && attn.k_norm) return (*attn.k_norm)(y);
  if (kind != Receiver::kQuery) return y;
  const Tensor q = attn.q_norm ? (*attn.q_norm)(y) : y;
  return (attn.head_scale.defined() ? q * select(attn.head_scale, 0, h.head) : q) * attn.scale();
}

// Returns W_O of a head, [d_value, d_model], with the residual scale.
Tensor Circuits::output(const HeadIndex& h) const {
  return select(at(h).weights.W_O, 0, h.head) * model_.blocks[std::size_t(h.layer)].residual_scale;
}

// Returns (W_O G U~^T)^T of a head, [classes, d_value].
Tensor Circuits::logits(const HeadIndex& h) const {
  const Tensor u = model_.head ? model_.head->weight : model_.tok.weight;
  return matmul(u - mean(u, {0}), mT(without_division(model_.ln, output(h))));
}

// Returns q R(distance) or, without a distance, q times the mean of R over the distances from 1 to
// context - 1. Returns q if the model has no RoPE.
Tensor Circuits::rotated(const Tensor& q, std::optional<std::int64_t> distance) const {
  const std::int64_t context = options().context;
  check<ValueError>(!distance || (*distance >= 0 && *distance < context), "Circuits",
                    "needs a distance from 0 to ", context - 1, ", got ", distance.value_or(0));
  if (!options().attention.rope) return q;
  const auto turned = [](const Tensor& x, std::int64_t position) {
    return squeeze(rope(unsqueeze(x, 1), {.offset = position}), 1);
  };
  if (distance) return turned(q, *distance);
  if (context == 1) return q;
  const Tensor one = eye(q.size(1), -1, float64);
  Tensor total = zeros_like(one);
  for (std::int64_t d = 1; d < context; ++d) total = total + turned(one, d);
  return matmul(q, total) / double(context - 1);
}

FactoredMap Circuits::qk(const HeadIndex& head, std::int64_t distance) const {
  const NoGrad guard;
  at(head);
  const Tensor& x = read_[std::size_t(head.layer)];
  return {rotated(read(Receiver::kQuery, head, x, true), distance),
          read(Receiver::kKey, head, x, true)};
}

FactoredMap Circuits::ov(const HeadIndex& head) const {
  const NoGrad guard;
  at(head);
  return {read(Receiver::kValue, head, read_[std::size_t(head.layer)], true), logits(head)};
}

FactoredMap Circuits::positions(const HeadIndex& head) const {
  const NoGrad guard;
  at(head);
  const Tensor table = model_.pos ? model_.pos->weight : model_.sinusoid;
  check<ValueError>(table.defined(), "Circuits::positions",
                    "needs learned or sinusoidal positions, got ", enum_name(options().positions));
  const auto& norm = model_.blocks[std::size_t(head.layer)].ln1;
  const Tensor sums = table + mean(model_.tok.weight, {0}), x = norm ? (*norm)(sums) : sums;
  return {read(Receiver::kQuery, head, x, true), read(Receiver::kKey, head, x, true)};
}

DistanceCurve Circuits::curve(const HeadIndex& head) const {
  const NoGrad guard;
  DistanceCurve curve;
  if (!options().attention.rope) return curve;
  const auto [q, k] = qk(head);
  // A score is q R . k, where R rotates q by the distance. Let q = m + u and k = n + v, where m and
  // n are the means over all tokens. The mean score is m R . n. The other three terms of a score,
  // u R . n, m R . v and u R . v, are uncorrelated over all pairs of tokens, so their variances add
  // up.
  const Tensor m = mean(q, {0}, true), n = mean(k, {0}, true);
  const auto covariance = [](const Tensor& x) { return matmul(mT(x), x) / double(x.size(0)); };
  const Tensor of_u = covariance(q - m), of_v = covariance(k - n);
  for (std::int64_t d = 0; d < options().context; ++d) {
    const Tensor turned = rotated(m, d), of_turned = rotated(mT(rotated(of_u, d)), d);
    curve.mean.push_back(sum(turned * n).item());
    curve.deviation.push_back(std::sqrt(
        std::max(0.0, sum(matmul(n, of_turned) * n + matmul(turned, of_v) * turned).item() +
                          sum(of_turned * of_v).item())));
  }
  return curve;
}

double Circuits::slope(const HeadIndex& head) const {
  at(head);
  if (options().positions != Positions::kAlibi) return std::numeric_limits<double>::quiet_NaN();
  const Tensor bias = ScoreBias::alibi(options().attention.heads, 2, 2, float64).tensor();
  return -double(bias.at({head.head, 1, 0}));
}

FactoredMap Circuits::composed(Receiver::Kind kind, const HeadIndex& a, const HeadIndex& b,
                               std::optional<std::int64_t> distance) const {
  const NoGrad guard;
  at(a), at(b);
  check<ValueError>(a.layer < b.layer, "Circuits::composed",
                    "needs a head of an earlier layer than ", head_name(b), ", got ", head_name(a));
  const Tensor written =
      matmul(read(Receiver::kValue, a, read_[std::size_t(a.layer)], false), output(a));
  const Tensor seen = without_division(model_.blocks[std::size_t(b.layer)].ln1, written);
  const Tensor& x = read_[std::size_t(b.layer)];
  if (kind == Receiver::kValue) return {read(Receiver::kValue, b, seen, false), logits(b)};
  const bool by_key = kind == Receiver::kKey;
  return {rotated(read(Receiver::kQuery, b, by_key ? x : seen, false), distance),
          read(Receiver::kKey, b, by_key ? seen : x, false)};
}

std::vector<CompositionScore> Circuits::composition_scores(std::int64_t draws,
                                                           std::int64_t seed) const {
  check<ValueError>(draws > 0, "composition_scores", "needs draws > 0, got ", draws);
  const NoGrad guard;
  constexpr Receiver::Kind kKinds[] = {Receiver::kQuery, Receiver::kKey, Receiver::kValue};
  const MultiHeadAttention::Options& o = options().attention;
  const auto heads = all_heads(options().layers, o.heads);
  std::vector<Products> products;
  for (const HeadIndex& h : heads) {
    const AttentionWeights& w = at(h).weights;
    const std::int64_t shared = o.kv_head(h.head);
    products.push_back(products_of(select(w.W_Q, 0, h.head), select(w.W_K, 0, shared),
                                   select(w.W_V, 0, shared), mT(select(w.W_O, 0, h.head))));
  }
  Generator random{std::uint64_t(seed)};
  const auto drawn = [&] {
    const auto matrix = [&](std::int64_t width) {
      return randn({o.d_model, width}, float64, random);
    };
    const Tensor q = matrix(o.d_head), k = matrix(o.d_head);
    const Tensor v = matrix(o.d_value), w = matrix(o.d_value);
    return products_of(q, k, v, w);
  };
  double means[std::size(kKinds)] = {};
  for (std::int64_t i = 0; i < draws && options().layers > 1; ++i) {
    const Products a = drawn(), b = drawn();
    for (const auto kind : kKinds)
      means[kind] += composition_score(a[Receiver::kValue], b[kind]) / double(draws);
  }
  std::vector<CompositionScore> scores;
  for (std::size_t i = 0; i < heads.size(); ++i)
    for (std::size_t j = i + 1; j < heads.size(); ++j)
      for (const auto kind : kKinds)
        if (heads[i].layer < heads[j].layer)
          scores.push_back({heads[i], heads[j], kind,
                            composition_score(products[i][Receiver::kValue], products[j][kind]),
                            means[kind]});
  return scores;
}

}  // namespace heed::nn
