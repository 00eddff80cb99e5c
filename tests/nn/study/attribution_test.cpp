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
  const auto expected = values(sum(e.detach() * g, {0, 2}));
  const auto got = token_attribution(model, one_sequence(), kDiff, Baseline::kZero).input_gradient;
  REQUIRE(got.size() == 6);
  for (std::size_t t = 0; t < 6; ++t) CHECK(std::abs(got[t] - expected[t]) <= 1e-12);
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

using Matrix = std::vector<std::vector<double>>;

TEST_CASE("rollout and gradient x attention equal plain loops") {
  const std::int64_t n = 4, heads = 2, layers = 3;
  Generator g(5);
  std::vector<Tensor> patterns, gradients;
  for (std::int64_t l = 0; l < layers; ++l) {
    patterns.push_back(tril(rand({1, heads, n, n}, float64, g)));
    gradients.push_back(randn({1, heads, n, n}, float64, g));
  }
  Matrix flow(n, std::vector<double>(n)), relevance = flow;
  for (std::size_t i = 0; i < 4; ++i) flow[i][i] = relevance[i][i] = 1;
  for (std::size_t l = 0; l < 3; ++l) {
    Matrix a(n, std::vector<double>(n)), m = a, next = a, more = relevance;
    for (std::int64_t i = 0; i < n; ++i) {
      double row = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        double& mean_weight = a[std::size_t(i)][std::size_t(j)];
        for (std::int64_t h = 0; h < heads; ++h) {
          const double weight = patterns[l].at({0, h, i, j});
          mean_weight += weight / double(heads);
          m[std::size_t(i)][std::size_t(j)] +=
              std::max(0.0, weight * gradients[l].at({0, h, i, j})) / double(heads);
        }
        mean_weight += i == j;
        row += mean_weight;
      }
      for (double& x : a[std::size_t(i)]) x /= row;
    }
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        for (std::size_t k = 0; k < 4; ++k) {
          next[i][j] += a[i][k] * flow[k][j];
          more[i][j] += m[i][k] * relevance[k][j];
        }
    flow = next, relevance = more;
  }
  const Tensor got_flow = attention_rollout(patterns),
               got_relevance = attention_relevance(patterns, gradients);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      CHECK(std::abs(got_flow.at({i, j}) - flow[std::size_t(i)][std::size_t(j)]) <= 1e-13);
      CHECK(std::abs(got_relevance.at({i, j}) - relevance[std::size_t(i)][std::size_t(j)]) <=
            1e-13);
    }
  CHECK_THROWS_AS(attention_rollout({}), ShapeError);
  CHECK_THROWS_AS(attention_relevance(patterns, std::span(gradients).first(2)), ShapeError);
  const std::vector<Tensor> wide{rand({1, 2, 3, 4}, float64, g)};
  CHECK_THROWS_AS(attention_rollout(wide), ShapeError);
}

TEST_CASE("attention_flow uses the patterns of the model and their gradients") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const AttentionFlow flow = attention_flow(study(model, one_sequence(), kDiff));
    Probe probe;
    for (const char* site : {"blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern"})
      probe.record(site);
    const Tensor e = model.tok(one_sequence().inputs).detach().requires_grad_();
    grad(sum(objective_values(model.forward_embedded(e, {.probe = &probe}), one_sequence(), kDiff)),
         e);
    std::vector<Tensor> patterns, gradients;
    for (const std::string layer : {"0", "1"}) {
      patterns.push_back(probe.value("blocks." + layer + ".attn.hook_pattern"));
      gradients.push_back(probe.value("blocks." + layer + ".attn.hook_pattern_grad"));
    }
    CHECK(values(flow.rollout) == values(attention_rollout(patterns)));
    CHECK(values(flow.relevance) == values(attention_relevance(patterns, gradients)));
    for (std::int64_t i = 0; i < 6; ++i) {
      double row = 0;
      for (std::int64_t j = 0; j < 6; ++j) row += flow.rollout.at({i, j});
      CHECK(row == Approx(1));
      for (std::int64_t j = i + 1; j < 6; ++j) CHECK(flow.relevance.at({i, j}) == 0);
    }
  }
}

}  // namespace
