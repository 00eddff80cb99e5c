// Lab: why attention divides scores by sqrt(d_k), where d_k is the size of a key. Without the
// division, the softmax saturates and its gradient vanishes.
//
// The Jacobian of a = softmax(s) is J = diag(a) - a a^T, so for a loss L, dL/ds = J dL/da. For
// queries and keys with N(0, 1) entries, the scores have standard deviation sqrt(d_k). Then only
// the two largest of n scores matter, and E[tr J] -> c_n / sqrt(d_k), where
//   c_n = n (n - 1) * integral of phi(x)^2 Phi(x)^(n-2) dx
// is the density at 0 of the gap between the two largest of n normal variables. phi and Phi are the
// density and the distribution function of N(0, 1). If the scores are divided by sqrt(d_k), tr J
// does not depend on d_k.
#include <algorithm>
#include <cstdio>
#include <numbers>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "examples/gradients/experiment.h"

using namespace heed::autograd;

namespace {

constexpr Index kKeys = 64, kSets = 16,
                kQueries = 250;  // kSets sets of keys; kQueries queries for each set

// Returns c_n, computed numerically.
double gap_density(Index n) {
  double sum = 0;
  const double h = 1e-3;
  for (int i = 0; i < 20000; ++i) {
    const double x = -10 + i * h;
    const double phi = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double Phi = std::erfc(-x / std::numbers::sqrt2) / 2;
    sum += phi * phi * std::pow(Phi, double(n - 2)) * h;
  }
  return double(n * (n - 1)) * sum;
}

struct Row {
  double trace, median, dead;    // mean and median of tr J, fraction of queries with tr J < 1e-3
  double squared_J, squared_dS;  // mean ||J||_F^2; mean ||dL/ds||^2 if dL/da is from N(0, 1)
};

Row measure(const Tensor& scores) {  // [sets, queries, keys]
  const Tensor s = scores.detach().requires_grad_();
  const Tensor a = softmax(s, -1);
  const Tensor squares = sum(a.detach() * a.detach(), {-1});
  const Tensor cubes = sum(pow(a.detach(), 3), {-1});
  std::vector<double> traces = to(1.0 - squares, float64).to_vector<double>();
  Row row{};
  row.trace = mean(1.0 - squares).item();
  row.squared_J = mean(squares - 2.0 * cubes + squares * squares).item();
  const Tensor ds = grad(sum(a * randn(a.shape(), float64)), {s})[0];
  row.squared_dS = mean(sum(ds * ds, {-1})).item();
  row.dead =
      double(std::count_if(traces.begin(), traces.end(), [](double t) { return t < 1e-3; })) /
      double(traces.size());
  std::nth_element(traces.begin(), traces.begin() + std::ssize(traces) / 2, traces.end());
  row.median = traces[traces.size() / 2];
  return row;
}

}  // namespace

int main() {
  manual_seed(1);
  const double c = gap_density(kKeys);
  std::printf("%ld keys, %ld queries, entries N(0, 1); c_%ld = %.4f\n\n", long(kKeys),
              long(kSets * kQueries), long(kKeys), c);
  std::printf("         without a scale                                           scaled\n");
  std::printf(
      "  d_k    tr J   c/sqrt(d_k)   median    below 1e-3   ||dL/dS||^2 (||J||^2)    tr J\n");
  std::vector<double> d_values, traces;
  heed::plot::Series mean{"mean tr J, no scale", {}, {}}, median{"median, no scale", {}, {}},
      kept{"mean tr J, divided by sqrt(d_k)", {}, {}}, law{"c / sqrt(d_k)", {}, {}};
  for (const Index d : {16, 64, 256, 1024, 4096}) {
    const Tensor q = randn({kSets, kQueries, d}), k = randn({kSets, kKeys, d});
    const Tensor s = to(matmul(q, mT(k)), float64);
    const double root = std::sqrt(double(d));
    const Row plain = measure(s), divided = measure(s / root);
    std::printf("%5ld  %.4f   %.4f       %8.2g      %4.1f %%       %.4f (%.4f)        %.4f\n",
                long(d), plain.trace, c / root, plain.median, plain.dead * 100, plain.squared_dS,
                plain.squared_J, divided.trace);
    if (d >= 64) d_values.push_back(double(d)), traces.push_back(plain.trace);
    const double x = std::log2(double(d));
    for (auto* series : {&mean, &median, &kept, &law}) series->x.push_back(x);
    mean.y.push_back(plain.trace), median.y.push_back(plain.median);
    kept.y.push_back(divided.trace), law.y.push_back(c / root);
  }
  const double slope = log_log_slope(d_values, traces);
  double constant = 0;  // geometric mean of tr J * sqrt(d_k)
  for (std::size_t i = 0; i < d_values.size(); ++i)
    constant += std::log(traces[i] * std::sqrt(d_values[i])) / double(d_values.size());
  constant = std::exp(constant);
  const auto [low, high] = std::minmax_element(kept.y.begin(), kept.y.end());
  std::printf("\n");
  Predictions predictions;
  predictions.expect("slope of log tr J over log d_k, from 64 on", slope, -0.55, -0.45);
  predictions.expect("tr J sqrt(d_k) / c", constant / c, 0.9, 1.1);
  predictions.expect_at_most("scaled: largest difference between two d_k", *high - *low, 0.01);
  std::printf(
      "\nNotice: the mean falls only like 1/sqrt(d_k), because of rare near-ties. The gradient of\n"
      "the median query vanishes much earlier. With the division, neither depends on d_k.\n");

  return predictions.finish(
      heed::plot::draw_chart({.title = "How much gradient the softmax lets through",
                              .x_name = "log2 d_k",
                              .y_name = "trace of the softmax's Jacobian",
                              .series = {mean, law, median, kept},
                              .log_y = true}),
      "gradient_scale.png",
      "Trace of the softmax Jacobian over head size: falling like c / sqrt(d_k) without a scale, "
      "constant with it; the median without a scale falls exponentially.");
}
