// Lab: the placement of LayerNorm (LN) determines how large the gradient of the last layer is
// before the first step (Xiong et al. 2020, arXiv 2002.04745). This decides whether training needs
// a warm-up.
//
//   post-LN  h = LN(x + attend(x)),  x <- LN(h + mlp(h))    Vaswani et al. 2017
//   pre-LN   h = x + attend(LN(x)),  x <- h + mlp(LN(h))    GPT-2, which has one more LN at the end
//
// The model is the one of the theorem. It has L layers of width d. Each has one head with queries
// and keys of 0, which averages all tokens, and an MLP d -> d -> d with ReLU. The entries of the
// matrices are drawn from N(0, 1/d).
//
// Post-LN: every sum h + mlp(h) has squared norm 3d/2. Of this, d comes from h and d/2 from the
// MLP, because ReLU keeps half of the squared norm. The gradient of the last layer does not depend
// on the depth L. Pre-LN: the residual stream x grows, with (1 + l/2) d <= |x|^2 <= (1 + 3l/2) d
// after layer l. The LN at the end divides by |x|, so the gradient falls like 1/sqrt(L). All of
// this is true at initialization only.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "examples/gradients/experiment.h"

using namespace heed::autograd;

namespace {

constexpr Index kWidth = 256, kTokens = 16, kClasses = 64, kDeepest = 32, kSeeds = 4;

enum class Norm { kPre, kPost };

struct Layer {
  Tensor value = draw(), up = draw(), down = draw().requires_grad_();
  static Tensor draw(Index columns = kWidth) {
    return randn({kWidth, columns}) / std::sqrt(double(kWidth));
  }
};

Tensor ln(const Tensor& x) { return layer_norm(x, Shape{kWidth}); }

// Returns the last sum of a layer. If `norm` is kPost, the input of the next layer is LN of this
// sum.
Tensor residual_sum(const Tensor& x, const Layer& w, Norm norm) {
  const auto attend = [&](const Tensor& u) {
    const Tensor none = zeros_like(u);  // queries and keys are 0
    return attention(none, none, matmul(u, w.value));
  };
  const auto mlp = [&](const Tensor& u) { return matmul(relu(matmul(u, w.up)), w.down); };
  const Tensor h = norm == Norm::kPre ? x + attend(ln(x)) : ln(x + attend(x));
  return h + mlp(norm == Norm::kPre ? ln(h) : h);
}

struct Measured {
  // Depths L, and for each depth the norm of the gradient of `down` in the last layer.
  std::vector<double> depth, gradient;
  std::vector<double> size = std::vector<double>(kDeepest);  // E |residual_sum|^2 / d of each layer
};

// Returns means over seeds. The model of depth L consists of the first L of kDeepest layers.
Measured measure(Norm norm) {
  Measured m{.depth = {4, 8, 16, 32}, .gradient = std::vector<double>(4)};
  for (std::int64_t seed = 1; seed <= kSeeds; ++seed) {
    manual_seed(seed);
    Tensor x = randn({kTokens, kWidth});
    const Tensor targets = randint(0, kClasses, {kTokens}), head = Layer::draw(kClasses);
    for (Index l = 1; l <= kDeepest; ++l) {
      const Layer layer;
      const Tensor end = residual_sum(x, layer, norm);
      m.size[std::size_t(l - 1)] += mean(end * end).item() / kSeeds;
      const auto at = std::find(m.depth.begin(), m.depth.end(), double(l));
      if (at != m.depth.end()) {
        // Both models end with a LayerNorm and a linear layer.
        const Tensor loss = cross_entropy(matmul(ln(end), head), targets);
        const Tensor g = grad(loss, layer.down);
        m.gradient[std::size_t(at - m.depth.begin())] += std::sqrt(sum(g * g).item()) / kSeeds;
      }
      x = (norm == Norm::kPre ? end : ln(end))
              .detach();  // input of the next layer, without gradient
    }
  }
  return m;
}

}  // namespace

int main() {
  const Measured pre = measure(Norm::kPre), post = measure(Norm::kPost);
  std::printf("d = %ld, %ld tokens, %ld seeds; norm of dL/dW, the last layer's second matrix\n\n",
              long(kWidth), long(kTokens), long(kSeeds));
  std::printf(" depth L   post-LN   pre-LN   pre-LN * sqrt(L)   |stream|^2 / d: post   pre\n");
  std::vector<double> flat, law;  // flat: pre-LN gradient * sqrt(L); law: average / sqrt(L)
  for (std::size_t i = 0; i < pre.depth.size(); ++i) {
    flat.push_back(pre.gradient[i] * std::sqrt(pre.depth[i]));
    const auto last = std::size_t(pre.depth[i]) - 1;
    std::printf("   %2.0f      %6.3f    %6.3f       %6.3f                  %6.3f   %6.2f\n",
                pre.depth[i], post.gradient[i], pre.gradient[i], flat[i], post.size[last],
                pre.size[last]);
  }
  double average = 0, spread = 0;
  for (const double x : flat) average += x / double(flat.size());
  for (const double x : flat) spread = std::max(spread, std::abs(x / average - 1));
  for (const double depth : pre.depth) law.push_back(average / std::sqrt(depth));
  double low = HUGE_VAL, high = 0;  // smallest |x|^2 / lower bound, largest / upper bound
  for (std::size_t l = 1; l <= pre.size.size(); ++l) {
    low = std::min(low, pre.size[l - 1] / (1 + 0.5 * double(l)));
    high = std::max(high, pre.size[l - 1] / (1 + 1.5 * double(l)));
  }
  const auto [least, most] = std::minmax_element(post.size.begin(), post.size.end());

  std::printf("\n");
  Predictions predictions;
  predictions.expect_at_most("pre-LN: largest deviation of gradient * sqrt(L) from its mean",
                             spread, 0.15);
  predictions.expect("post-LN: gradient at L = 32 / at L = 4",
                     post.gradient.back() / post.gradient[0], 0.8, 1.4);
  predictions.expect("pre-LN: smallest |x|^2 / ((1 + l/2) d) over layers", low, 1);
  predictions.expect_at_most("pre-LN: largest |x|^2 / ((1 + 3l/2) d) over layers", high, 1);
  predictions.expect("post-LN: smallest |sum|^2 / d over layers, 1.5 in theory", *least, 1.35,
                     1.65);
  predictions.expect("post-LN: largest |sum|^2 / d over layers", *most, 1.35, 1.65);
  std::printf(
      "\nNotice: with pre-LN, depth makes the stream large and the gradient small. With post-LN,\n"
      "both stay constant. `heed train shakespeare --norm post` shows a whole training.\n");

  return predictions.finish(
      heed::plot::draw_chart({.title = "Gradient of the last layer before the first step",
                              .x_name = "depth L",
                              .y_name = "norm of dL/dW of its second matrix",
                              .series = {{"post-LN", post.depth, post.gradient},
                                         {"pre-LN", pre.depth, pre.gradient},
                                         {"like 1/sqrt(L)", pre.depth, law}},
                              .log_y = true,
                              .log_x = true}),
      "gradient_norm_placement.png",
      "Norm of the last layer's gradient over depth: flat for post-LN, like 1/sqrt(L) for pre-LN.");
}
