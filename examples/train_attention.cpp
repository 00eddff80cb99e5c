// Trains a single nn::MultiHeadAttention layer and draws its attention weights before and after.
//
// The input of each token consists of eight random numbers, its own position and the position of a
// target token. The correct output is the eight numbers of the target token. Therefore the
// attention weights that the layer should learn are known: they are `wanted`.
#include <cstdio>

#include "nn/nn.h"
#include "tools/plot/plot.h"

using namespace heed::autograd;
using namespace heed::nn;

constexpr Index kTokens = 8, kNumbers = 8, kWidth = kNumbers + 2 * kTokens, kHeads = 2;

struct Examples {
  // x [B, T, d_model] is the input. wanted [B, T, T] is 1 at the target of each token and 0
  // elsewhere. y [B, T, kNumbers] is the correct output.
  Tensor x, wanted, y;
  explicit Examples(Index batch) {
    const Tensor numbers = randn({batch, kTokens, kNumbers}), one_hot = eye(kTokens);
    wanted = embedding(one_hot, randint(0, kTokens, {batch, kTokens}));
    x = cat({numbers, expand(one_hot, wanted.shape()), wanted}, -1);
    y = matmul(wanted, numbers);
  }
};

// Returns the attention weights of all heads [B, H, T, T], recorded during a forward pass.
static Tensor attention_weights(const MultiHeadAttention& layer, const Examples& e) {
  Probe probe;
  probe.record("hook_pattern");
  layer(e.x, {.probe = &probe});
  return probe.value("hook_pattern");
}

int main() {
  manual_seed(1);
  const MultiHeadAttention layer({.d_model = kWidth, .heads = kHeads});
  AdamW optimizer(decay_groups(parameters(layer), 0));
  const Examples shown(1);
  const Tensor before = attention_weights(layer, shown);
  for (int step = 0; step < 600; ++step) {
    const Examples e(32);
    const Tensor error = slice(layer(e.x), 2, 0, kNumbers) - e.y;
    optimizer.zero_grad();
    backward(mean(error * error));
    optimizer.step({.lr = 1e-2});
  }
  const Tensor after = attention_weights(layer, shown);
  const double found = sum(after * unsqueeze(shown.wanted, 1)).item() / double(kTokens * kHeads);
  std::printf("mean attention weight on the target token: %.3f\n", found);

  heed::plot::HeatmapGrid grid{.title = "Attention before training (above) and after it (below)"};
  grid.panel_columns = kHeads, grid.row_axis = "query", grid.col_axis = "key";
  for (const Tensor& a : {before, after})
    for (const Index h : {0, 1})
      grid.panels.push_back({"head " + std::to_string(h), kTokens, kTokens,
                             select(select(a, 0, 0), 0, h).to_vector<float>()});
  heed::plot::write_png("train_attention.png", draw_heatmap(grid), grid.title);
  return found > 0.9 ? 0 : 1;
}
