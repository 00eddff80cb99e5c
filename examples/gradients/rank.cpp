// Lab: rank collapse. Attention without skip connections makes tokens equal: in each layer, small
// relative differences r become about r^3. The gradients of the query and key weights vanish, too
// (Dong et al. 2021; Noci et al. 2022).
//
// Token i is m + r x_i, where m is common to all tokens and r is small. In the scores S_ij = (m + r
// x_i) W (m + r x_j), terms that depend only on i do not change the softmax, and terms that depend
// only on j are equal for all queries. Only r^2 x_i W x_j makes the weights of queries differ. The
// values differ by r, so the outputs differ by r^3. For a loss L, dL/dS has one factor r from the
// values. Its sum over keys is 0, so multiplying it by the keys gives another factor r. Therefore
// dL/dW_Q and dL/dW_K fall as r^2. dL/dW_V does not depend on r.
#include <cstdio>

#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"
#include "examples/gradients/experiment.h"

using namespace heed::autograd;

namespace {

constexpr Index kTokens = 32, kWidth = 64;

double norm(const Tensor& x) { return std::sqrt(sum(x * x).item()); }
// Returns the norm of x - mean(x), relative to the norm of x. x contains n tokens, [n, d], and the
// mean is taken over tokens.
double residual(const Tensor& x) { return norm(x - mean(x, {0}, true)) / norm(x); }

struct Weights {
  Tensor q, k, v;
  Weights() : q(draw()), k(draw()), v(draw()) {}
  static Tensor draw() {
    return (randn({kWidth, kWidth}, float64) / std::sqrt(double(kWidth))).requires_grad_();
  }
};

Tensor layer(const Tensor& x, const Weights& w) {
  return attention(matmul(x, w.q), matmul(x, w.k), matmul(x, w.v));
}

// Prints the relative differences of the tokens after each of six layers, first without and then
// with skip connections.
void print_six_layers() {
  std::printf("six layers from N(0, 1) tokens, relative differences:\n");
  for (const bool skip : {false, true}) {
    const NoGrad guard;
    manual_seed(2);
    Tensor x = randn({kTokens, kWidth}, float64);
    std::printf("  %-14s %.3f", skip ? "with skips" : "without skips", residual(x));
    for (int l = 0; l < 6; ++l) {
      const Tensor y = layer(x, Weights());
      x = skip ? x + y : y;
      std::printf(" -> %.2g", residual(x));
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  manual_seed(1);
  const Tensor common = randn({1, kWidth}, float64), noise = randn({kTokens, kWidth}, float64);
  const Tensor cotangent = randn({kTokens, kWidth}, float64);
  const Weights w;
  std::vector<double> r_values;
  std::vector<heed::plot::Series> curves{{"output's differences", {}, {}},
                                         {"dL/dW of queries", {}, {}},
                                         {"dL/dW of keys", {}, {}},
                                         {"dL/dW of values", {}, {}}};
  std::printf(
      "one layer, %ld tokens of width %ld\n\n     r        output     dL/dW_Q    dL/dW_K    "
      "dL/dW_V\n",
      long(kTokens), long(kWidth));
  for (const double r : {1e-1, 1e-2, 1e-3, 1e-4}) {
    const Tensor y = layer(common + r * noise, w);
    const auto g = grad(sum(y * cotangent), {w.q, w.k, w.v});
    const double values[] = {residual(y.detach()), norm(g[0]), norm(g[1]), norm(g[2])};
    std::printf("  %.0e   %.3e  %.3e  %.3e  %.3e\n", r, values[0], values[1], values[2], values[3]);
    r_values.push_back(r);
    for (std::size_t i = 0; i < 4; ++i) {
      curves[i].x.push_back(std::log10(r));
      curves[i].y.push_back(values[i]);
    }
  }
  const double predicted[] = {3, 2, 2, 0};
  std::printf("\n");
  Predictions predictions;
  for (std::size_t i = 0; i < 4; ++i)
    predictions.expect("slope of " + curves[i].name, log_log_slope(r_values, curves[i].y),
                       predicted[i] - 0.02, predicted[i] + 0.02);
  std::printf("\n");
  print_six_layers();
  std::printf(
      "\nNotice: the exponent 3 per layer is 3^L for L layers, so after a few layers the tokens\n"
      "are equal even in float64. With skip connections, tokens stay different, and queries and\n"
      "keys keep their gradients.\n");

  return predictions.finish(
      heed::plot::draw_chart({.title = "Rank collapse in one layer of attention",
                              .x_name = "log10 of the tokens' relative differences",
                              .y_name = "norm",
                              .series = curves,
                              .log_y = true}),
      "gradient_rank.png",
      "Over the tokens' differences r: the output's differences fall as r^3, gradients of W_Q and "
      "W_K as r^2, and the gradient of W_V is constant.");
}
