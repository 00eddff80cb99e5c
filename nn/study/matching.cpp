#include "nn/study/matching.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

std::vector<std::int64_t> best_assignment(const std::vector<double>& cells, std::int64_t rows,
                                          std::int64_t columns) {
  // Minimizes the sum of costs of a square matrix: rows are added one by one, each by a shortest
  // path of alternating changes. u and v are the potentials of rows and columns; index 0 is unused.
  for (const double cell : cells)
    check<NumericError>(std::isfinite(cell), "best_assignment", "a cell is not finite");
  const std::int64_t n = std::max(rows, columns);
  const auto cost = [&](std::int64_t i, std::int64_t j) {
    return i > rows || j > columns ? 0 : -cells[std::size_t((i - 1) * columns + j - 1)];
  };
  std::vector<double> u(std::size_t(n) + 1), v(u);
  std::vector<std::int64_t> row_of(u.size());  // by column
  for (std::int64_t i = 1; i <= n; ++i) {
    std::vector<double> least(u.size(), std::numeric_limits<double>::infinity());
    std::vector<std::int64_t> before(u.size());
    std::vector<bool> used(u.size());
    std::int64_t column = 0;
    row_of[0] = i;
    do {
      used[std::size_t(column)] = true;
      const std::int64_t row = row_of[std::size_t(column)];
      std::int64_t next = 0;
      double delta = std::numeric_limits<double>::infinity();
      for (std::int64_t j = 1; j <= n; ++j) {
        const auto at = std::size_t(j);
        if (used[at]) continue;
        const double reduced = cost(row, j) - u[std::size_t(row)] - v[at];
        if (reduced < least[at]) least[at] = reduced, before[at] = column;
        if (least[at] < delta) delta = least[at], next = j;
      }
      for (std::int64_t j = 0; j <= n; ++j) {
        const auto at = std::size_t(j);
        if (used[at])
          u[std::size_t(row_of[at])] += delta, v[at] -= delta;
        else
          least[at] -= delta;
      }
      column = next;
    } while (row_of[std::size_t(column)] != 0);
    for (; column != 0; column = before[std::size_t(column)])
      row_of[std::size_t(column)] = row_of[std::size_t(before[std::size_t(column)])];
  }
  std::vector<std::int64_t> column_of(std::size_t(rows), -1);
  for (std::int64_t j = 1; j <= columns; ++j)
    if (row_of[std::size_t(j)] <= rows) column_of[std::size_t(row_of[std::size_t(j)] - 1)] = j - 1;
  return column_of;
}

std::vector<HeadMatch> match_heads(const Transformer& a, const Transformer& b, const Tensor& inputs,
                                   bool same_heads) {
  const std::vector<Tensor> of_a = mean_patterns(a, inputs), of_b = mean_patterns(b, inputs);
  std::vector<HeadMatch> matches;
  for (std::size_t l = 0; l < of_a.size(); ++l) {
    const std::int64_t rows = of_a[l].size(0), columns = l < of_b.size() ? of_b[l].size(0) : 0;
    std::vector<double> cosines;
    if (columns > 0) cosines = to_doubles(matmul(of_a[l], transpose(of_b[l], 0, 1)));
    std::vector<std::int64_t> partner = best_assignment(cosines, rows, columns);
    for (std::int64_t h = 0; h < rows; ++h) {
      const std::int64_t other = same_heads ? h : partner[std::size_t(h)];
      const HeadIndex head{std::int64_t(l), h};
      if (other < 0)
        matches.push_back({head, {}, 0, false});
      else
        matches.push_back({head, HeadIndex{head.layer, other},
                           cosines[std::size_t(h * columns + other)],
                           same_heads || cosines[std::size_t(h * columns + other)] >= 0.7});
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
