#include "nn/study/attribution.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

struct EmbeddingRun {
  std::vector<double> values;  // [n], L of each copy
  Tensor gradients;            // [n, T, d_model], dL/d(embeddings)
};

// Runs one copy of the sequence for each of the n elements of `embedded`, [n, T, d_model].
EmbeddingRun run_embedded(const Transformer& model, const Batch& sequence,
                          const Objective& objective, const Tensor& embedded) {
  const GradMode recording(true);
  const Tensor leaf = contiguous(embedded).detach().requires_grad_();
  const Tensor values = objective_values(model.forward_embedded(leaf),
                                         repeat_batch(sequence, embedded.size(0)), objective);
  return {to_doubles(values), grad(sum(values), leaf)};
}

std::vector<double> by_token(const Tensor& difference, const Tensor& gradient) {
  return to_doubles(sum(to(difference, float64) * to(gradient, float64), {0, 2}));
}

void check_patterns(std::span<const Tensor> patterns) {
  check(!patterns.empty(), "attention_rollout", "needs a pattern for each layer, got none");
  for (const Tensor& a : patterns)
    check(a.rank() == 4 && a.size(0) == 1 && a.size(2) == a.size(3) &&
              a.size(2) == patterns[0].size(2),
          "attention_rollout", "needs patterns [1, H, T, T] with equal T, got ", a.shape());
}

Tensor mean_over_heads(const Tensor& x) { return mean(select(x, 0, 0), {0}); }

}  // namespace

TokenAttribution token_attribution(const Transformer& model, const Batch& sequence,
                                   const Objective& objective, Baseline baseline,
                                   std::int64_t points) {
  check_one_sequence("token_attribution", sequence);
  check<ValueError>(points >= 3 && points % 2 == 1, "token_attribution",
                    "Simpson's rule needs an odd number of points, 3 or more, got ", points);
  const Tensor embedded = model.tok(sequence.inputs).detach();  // [1, T, d_model]
  const Tensor start = baseline == Baseline::kZero
                           ? zeros({1}, embedded.dtype())
                           : mean(model.tok.weight.detach(), {0});  // [d_model]
  const Tensor difference = embedded - start;
  TokenAttribution t{};
  Tensor integral = zeros(embedded.shape(), float64);
  for (std::int64_t begin = 0; begin < points; begin += kMaxCopies) {
    const std::int64_t end = std::min(begin + kMaxCopies, points);
    std::vector<double> at, weights;
    for (std::int64_t i = begin; i < end; ++i) {
      const double part = i == 0 || i == points - 1 ? 1 : i % 2 == 1 ? 4 : 2;  // Simpson's rule
      at.push_back(double(i) / double(points - 1));
      weights.push_back(part / (3 * double(points - 1)));
    }
    const Shape by_copy{end - begin, 1, 1};
    const Tensor on_line = start + to(from_data(at, by_copy), embedded.dtype()) * difference;
    const EmbeddingRun run = run_embedded(model, sequence, objective, on_line);
    integral = integral + sum(to(run.gradients, float64) * from_data(weights, by_copy), {0}, true);
    if (begin == 0) t.baseline_value = run.values.front();
    if (end == points) {
      t.value = run.values.back();
      t.input_gradient =
          by_token(difference, slice(run.gradients, 0, end - begin - 1, end - begin));
    }
  }
  t.integrated = by_token(difference, integral);
  double total = 0;
  for (const double x : t.integrated) total += x;
  t.completeness_error = std::abs(total - (t.value - t.baseline_value));
  return t;
}

Tensor attention_rollout(std::span<const Tensor> patterns) {
  const NoGrad guard;
  check_patterns(patterns);
  const Tensor identity = eye(patterns[0].size(2), -1, float64);
  Tensor flow = identity;
  for (const Tensor& a : patterns) {
    const Tensor with_stream = mean_over_heads(to(a, float64)) + identity;
    flow = matmul(with_stream / sum(with_stream, {-1}, true), flow);
  }
  return flow;
}

Tensor attention_relevance(std::span<const Tensor> patterns, std::span<const Tensor> gradients) {
  const NoGrad guard;
  check_patterns(patterns);
  check(patterns.size() == gradients.size(), "attention_relevance",
        "needs a gradient for each pattern, got ", gradients.size(), " for ", patterns.size());
  Tensor relevance = eye(patterns[0].size(2), -1, float64);
  for (std::size_t l = 0; l < patterns.size(); ++l) {
    const Tensor raises = relu(to(patterns[l], float64) * to(gradients[l], float64));
    relevance = relevance + matmul(mean_over_heads(raises), relevance);
  }
  return relevance;
}

}  // namespace heed::nn
