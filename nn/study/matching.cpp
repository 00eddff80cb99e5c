#include "nn/study/matching.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/ops.h"
#include "nn/io/safetensors.h"
#include "nn/study/forward_passes.h"
#include "nn/train/trainer.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the mean pattern of each head of a layer, [H, T * T] float64, of Euclidean norm 1.
std::vector<Tensor> mean_patterns(const Transformer& model, const Tensor& inputs) {
  const NoGrad guard;
  const std::int64_t count = inputs.size(0), at_once = sequences_at_once(model, inputs.size(1));
  std::vector<Tensor> means(std::size_t(model.options.layers));
  for (std::int64_t first = 0; first < count; first += at_once) {
    const Tensor part = slice(inputs, 0, first, std::min(first + at_once, count));
    const RecordedForward pass = record_forward(model, part, {"attn.hook_pattern"});
    for (std::size_t l = 0; l < means.size(); ++l) {
      const Tensor total = sum(to(pass.at[0][l], float64), {0});  // [H, T, T]
      means[l] = means[l].defined() ? means[l] + total : total;
    }
  }
  for (Tensor& mean : means) {
    const Tensor rows = reshape(mean, {mean.size(0), -1});
    mean = rows / sqrt(sum(rows * rows, {1}, true));
  }
  return means;
}

// Returns the maps of B in the order of the heads of A, in the dtype of `of_a`. A head without a
// close match has the map of A.
Tensor in_order_of_a(const Tensor& maps, const std::vector<HeadMatch>& layer, const Tensor& of_a) {
  std::vector<Tensor> heads;
  for (const HeadMatch& m : layer)
    heads.push_back(m.is_close ? to(select(maps, 1, m.b->head), of_a.dtype())
                               : select(of_a, 1, m.a.head));
  return stack(heads, 1);
}

}  // namespace

bool equal_at_start(const RunConfig& a, const Task& task_a, const RunConfig& b,
                    const Task& task_b) {
  const Transformer x = make_model(a, task_a), y = make_model(b, task_b);
  return hash_of_tensors(parameters(x)) == hash_of_tensors(parameters(y));
}

std::vector<HeadMatch> match_heads(const Transformer& a, const Transformer& b, const Tensor& inputs,
                                   bool same_heads) {
  const std::vector<Tensor> of_a = mean_patterns(a, inputs), of_b = mean_patterns(b, inputs);
  std::vector<HeadMatch> matches;
  for (std::size_t l = 0; l < of_a.size(); ++l) {
    const auto heads_a = std::size_t(of_a[l].size(0));
    const std::size_t heads_b = l < of_b.size() ? std::size_t(of_b[l].size(0)) : 0;
    std::vector<double> cosines;  // [heads_a, heads_b]
    if (heads_b > 0) cosines = to_doubles(matmul(of_a[l], transpose(of_b[l], 0, 1)));
    for (const double cosine : cosines)
      check_finite(cosine, "match_heads", "the cosine of two patterns");
    std::vector<std::size_t> order(cosines.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t k) { return cosines[k]; });
    std::vector<std::optional<std::size_t>> pair_of(heads_a);  // indices of cosines
    std::vector<bool> taken(heads_b);
    for (const std::size_t k : order) {
      const std::size_t x = k / heads_b, y = k % heads_b;
      if (same_heads ? x != y : pair_of[x] || taken[y]) continue;
      pair_of[x] = k, taken[y] = true;
    }
    for (std::size_t h = 0; h < heads_a; ++h) {
      HeadMatch& match =
          matches.emplace_back(HeadMatch{{std::int64_t(l), std::int64_t(h)}, {}, 0, false});
      if (!pair_of[h]) continue;
      match.b = HeadIndex{match.a.layer, std::int64_t(*pair_of[h] % heads_b)};
      match.cosine = cosines[*pair_of[h]];
      match.is_close = same_heads || match.cosine >= 0.7;
    }
  }
  return matches;
}

Study difference_of(const Study& a, const Study& b, const std::vector<HeadMatch>& matches) {
  Study d;
  d.value = b.value - a.value;
  for (std::size_t l = 0; l < std::min(a.layers.size(), b.layers.size()); ++l) {
    std::vector<HeadMatch> layer;
    for (const HeadMatch& m : matches)
      if (m.a.layer == std::int64_t(l)) layer.push_back(m);
    std::vector<bool> apart;
    for (const HeadMatch& m : layer) apart.push_back(!m.is_close);
    LayerStudy& difference = d.layers.emplace_back();
    // A cell is hidden if both runs hide it, or if its head has no close match.
    difference.scores = masked_fill(
        maximum(a.layers[l].scores, in_order_of_a(b.layers[l].scores, layer, a.layers[l].scores)),
        from_data(apart, {1, std::ssize(apart), 1, 1}), -HUGE_VAL);
    for (const MapQuantity& q : map_quantities())
      difference.*q.values = in_order_of_a(b.layers[l].*q.values, layer, a.layers[l].*q.values) -
                             a.layers[l].*q.values;
  }
  return d;
}

}  // namespace heed::nn
