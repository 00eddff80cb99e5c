// Tests of token attributions. Gradients are compared with a separate computation, sums of
// attributions with changes of L, and rollout with plain loops.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::testing::largest;
using heed::autograd::testing::values;

// Checks L with the embeddings and L with the baseline. Returns |sum of the integrated gradients -
// change of L from the baseline to the embeddings|.
double completeness_error(const Transformer& model, Baseline baseline, std::int64_t points) {
  const TokenAttribution t = token_attribution(model, one_sequence(), kDiff, baseline, points);
  const Tensor start =
      baseline == Baseline::kZero ? zeros({1}, float64) : mean(model.tok.weight.detach(), {0});
  const Tensor at_start = expand(start, {1, 6, 12});
  const double value = objective_values(model(one_sequence().inputs), one_sequence(), kDiff).item(),
               from =
                   objective_values(model.forward_embedded(at_start), one_sequence(), kDiff).item();
  CHECK(t.value == Approx(value));
  CHECK(t.baseline_value == Approx(from));
  CHECK(std::abs(value - from) > 1e-2);
  double sum_of_all = 0;
  for (const double x : t.integrated) sum_of_all += x;
  const double error = std::abs(sum_of_all - (value - from));
  CHECK(std::abs(t.completeness_error - error) <= 1e-12);
  return error;
}

TEST_CASE("integrated gradients sum to the change of L from the baseline") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    CHECK(completeness_error(random_model(o), Baseline::kMean, 129) <= 1e-3);
  }
  const Transformer model = random_model(small_options());
  for (const Baseline baseline : {Baseline::kMean, Baseline::kZero}) {
    const double coarse = completeness_error(model, baseline, 3),
                 fine = completeness_error(model, baseline, 513);
    CHECK(fine <= 1e-6);
    CHECK(coarse > 100 * fine);
  }
}

TEST_CASE("input x gradient equals the gradient of the embeddings, token by token") {
  const Transformer model = random_model(small_options());
  const Tensor e = model.tok(one_sequence().inputs).detach().requires_grad_();
  const Tensor g =
      grad(sum(objective_values(model.forward_embedded(e), one_sequence(), kDiff)), e).detach();
  const auto got = token_attribution(model, one_sequence(), kDiff, Baseline::kZero).input_gradient;
  CHECK(largest(sum(e.detach() * g, {0, 2}) - from_data(got, {6})) <= 1e-12);
  for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
}

TEST_CASE("token_attribution takes float32 and rejects invalid points and batch sizes") {
  Transformer::Options o = small_options();
  o.attention.dtype = float32;
  const Transformer model = random_model(o);
  const TokenAttribution t = token_attribution(model, one_sequence(), {}, Baseline::kMean, 65);
  CHECK(t.completeness_error <= 1e-3);
  CHECK_THROWS_WITH(token_attribution(model, one_sequence(), {}, Baseline::kMean, 1),
                    Contains("odd number of points"));
  CHECK_THROWS_AS(token_attribution(model, batch_of({{1, 2}, {2, 1}}), {}, Baseline::kMean),
                  ShapeError);
}

TEST_CASE("rollout and gradient x attention equal plain loops") {
  constexpr std::size_t kLayers = 3, kHeads = 2, n = 4;
  Generator g(5);
  std::vector<Tensor> patterns, gradients;
  double flow[n][n] = {}, relevance[n][n] = {};
  for (std::size_t i = 0; i < n; ++i) flow[i][i] = relevance[i][i] = 1;
  for (std::size_t l = 0; l < kLayers; ++l) {
    patterns.push_back(tril(rand({1, kHeads, n, n}, float64, g)));
    gradients.push_back(randn({1, kHeads, n, n}, float64, g));
    const auto weights = values(patterns[l]), slopes = values(gradients[l]);
    double next[n][n] = {}, more[n][n] = {};
    for (std::size_t i = 0; i < n; ++i) {
      double row[n] = {}, raises[n] = {}, total = 0;
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t h = 0; h < kHeads; ++h) {
          const std::size_t cell = (h * n + i) * n + j;
          row[j] += weights[cell] / kHeads;
          raises[j] += std::max(0.0, weights[cell] * slopes[cell]) / kHeads;
        }
        row[j] += i == j;
        total += row[j];
      }
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < n; ++k) {
          next[i][k] += row[j] / total * flow[j][k];
          more[i][k] += raises[j] * relevance[j][k];
        }
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k) flow[i][k] = next[i][k], relevance[i][k] += more[i][k];
  }
  const auto got_flow = values(attention_rollout(patterns)),
             got_relevance = values(attention_relevance(patterns, gradients));
  for (std::size_t i = 0; i < n * n; ++i) {
    CHECK(std::abs(got_flow.at(i) - flow[i / n][i % n]) <= 1e-13);
    CHECK(std::abs(got_relevance.at(i) - relevance[i / n][i % n]) <= 1e-13);
  }
  CHECK_THROWS_AS(attention_rollout({}), ShapeError);
  CHECK_THROWS_AS(attention_relevance(patterns, std::span(gradients).first(2)), ShapeError);
  const std::vector<Tensor> wide{rand({1, 2, 3, 4}, float64, g)};
  CHECK_THROWS_AS(attention_rollout(wide), ShapeError);
}

}  // namespace
