// Notebook 3: self-attention of three words, its heat map,
// and a multi-head layer that raises an error in the notebook.
#include <cmath>

#include "autograd/base/files.h"
#include "examples/notebooks/notebook.h"
#include "nn/nn.h"
#include "tools/plot/plot.h"

using namespace heed::autograd;
using namespace heed::notebook;
namespace nn = heed::nn;
namespace plot = heed::plot;

namespace {

struct Attended {
  Tensor output, attention_weights;
};
Attended compute_self_attention(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const Tensor scores = matmul(queries, mT(keys)) / std::sqrt(double(keys.size(-1)));
  const Tensor attention_weights = softmax(scores, -1);
  return {matmul(attention_weights, values), attention_weights};
}

// Draws the picture of plt.imshow(weights, cmap='viridis') with a color bar. Adds a description in
// words to the file.
void display_attention_weights(const Tensor& weights, const std::string& file,
                               const std::string& alt_text) {
  plot::HeatmapGrid grid;
  grid.title = "Attention Weights Visualization";
  grid.panels = {{"", 3, 3, to(weights, float32).to_vector<float>()}};
  grid.row_axis = "Output Sequence";
  grid.col_axis = "Input Sequence";
  plot::write_png(file, plot::draw_heatmap(grid), alt_text);
}

// Returns the relative luminance of an sRGB color, from 0 (black) to 1 (white).
double luminance(plot::Rgb c) {
  const auto linear = [](double v) {
    return v <= 0.04045 * 255 ? v / 255 / 12.92 : std::pow((v / 255 + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

struct MultiHeadAttentionLayer {
  static constexpr Index embedding_size = 4, heads = 2, head_dim = 2;
  // The layers are initialized in the order of the notebook, in float32 as in PyTorch. forward()
  // uses them in float64.
  nn::Linear values_layer{{.in = embedding_size, .out = embedding_size, .bias = false}};
  nn::Linear keys_layer{{.in = embedding_size, .out = embedding_size, .bias = false}};
  nn::Linear queries_layer{{.in = embedding_size, .out = embedding_size, .bias = false}};
  nn::Linear output_layer{{.in = embedding_size, .out = embedding_size}};

  struct Result {
    Tensor output, energy, weights;
  };
  // The arguments can repeat the mistakes of the notebook: a wrong `scale`, `permutes` = true, and
  // another text `second` of the second einsum.
  Result forward(const Tensor& x, double scale, bool permutes = false,
                 const char* second = "nhql,nlhd->nqhd") const {
    const Index batch = x.size(0), length = x.size(1);
    const auto project = [&](const nn::Linear& layer) {
      const Tensor y =
          reshape(linear(x, to(layer.weight, float64)), {batch, length, heads, head_dim});
      return permutes ? permute(y, {0, 2, 1, 3}) : y;
    };
    const Tensor values = project(values_layer), keys = project(keys_layer),
                 queries = project(queries_layer);
    const Tensor energy = einsum("nqhd,nkhd->nhqk", {queries, keys});
    const Tensor weights = softmax(energy * scale, 3);
    const Tensor out = reshape(einsum(second, {weights, values}), {batch, length, embedding_size});
    return {linear(out, to(output_layer.weight, float64), to(output_layer.bias, float64)), energy,
            weights};
  }
};

void self_attention(const Tensor& sample_input) {
  cell("section 1, output", "Self-Attention Mechanism");
  const auto [output, weights] = compute_self_attention(sample_input, sample_input, sample_input);
  std::cout << "Attention Output:\n";
  show("output", output);
  std::cout << "Attention Weights:\n";
  show("weights", weights);
  require("the fused attention() returns the same",
          allclose(attention(sample_input, sample_input, sample_input), output, 0, 1e-14));

  cell("section 2", "Visualizing Attention Weights");
  const std::string file = "notebook_3.png";
  const auto at = [&matrix = weights](Index i, Index j) {
    return plot::format_number(matrix.at({i, j}));
  };
  const std::string alt_text =
      text("Attention weights of three words, 3 x 3; bright is strong. Each word attends most to ",
           "itself: ", at(0, 0), ", ", at(1, 1), ", ", at(2, 2),
           ". Words 0 and 1 attend least to each other: ", at(0, 1), ".");
  display_attention_weights(weights, file, alt_text);
  std::cout << "picture: " << file << "\n  " << alt_text << "\n";
  const std::string bytes = read_file(file);
  require("the file contains a description, which the notebook announces but does not have",
          bytes.find("iTXtDescription") != bytes.npos && bytes.find(alt_text) != bytes.npos);

  // stronger_is(true) is true if the larger weight of each pair has the lighter color.
  // stronger_is(false) is true if it has the darker color.
  const double largest = max(weights).item();
  const auto light = [&](double weight) { return luminance(plot::viridis(weight / largest)); };
  const auto values = weights.to_vector<double>();
  const auto stronger_is = [&](bool lighter) {
    for (const double a : values)
      for (const double b : values)
        if (a > b + 1e-9 && (light(a) > light(b)) != lighter) return false;
    return true;
  };
  fault("\"Darker colors represent stronger attention\"", stronger_is(true), stronger_is(false),
        text("Under viridis the luminance of ", values[1], " is ", light(values[1]), ", of ",
             values[0], " it is ", light(values[0]), ": bright is strong."));
}

void multi_head(const Tensor& sample_input) {
  cell("section 3, output",
       "Multi-Head Attention; without a seed in the notebook, so only the size is compared");
  manual_seed(0);
  const MultiHeadAttentionLayer layer;
  const Tensor x = unsqueeze(sample_input, 0);
  const double by_head = 1 / std::sqrt(2), by_embedding = 1 / std::sqrt(4);
  const auto right = layer.forward(x, by_head), scaled = layer.forward(x, by_embedding);
  const auto literal = layer.forward(x, by_embedding, true);
  std::cout << "Output from Multi-Head Attention:\n";
  show("output", right.output);
  cell("derived.mha", "from manual_seed(0): right, with the wrong scale, and as in the notebook");
  show("correct_positions_sqrt_head_dim", right.output);
  show("positions_sqrt_embedding_size", scaled.output);
  show("literal_code_heads_attend_heads", literal.output);

  const auto run_with = [&](const char* second) { layer.forward(x, by_head, false, second); };
  const std::string reason = error_text([&] { run_with("nhq1,nlhd->nqhd"); });
  fault("`nhq1`, with the digit 1 instead of the letter l",
        error_text([&] { run_with("nhql,nlhd->nqhd"); }).empty(), reason.empty(), reason);
  require("the error points at it",
          reason.find("\n  nhq1,nlhd->nqhd\n     ^") != std::string::npos);

  // With the right letter the layer runs, but its result is still wrong.
  const auto follows_the_words = [&](bool permutes) {
    const Tensor back = layer.forward(flip(x, 1), by_embedding, permutes).output;
    return allclose(flip(back, 1), layer.forward(x, by_embedding, permutes).output);
  };
  fault("the permutes before an einsum that expects \"nqhd\"", follows_the_words(false),
        follows_the_words(true),
        text("The energy has shape ", literal.energy.shape(), " (heads by heads), not ",
             right.energy.shape(), ". Words in reverse\n",
             "order should give the outputs in reverse order, but they do not."));
  const auto scale_in = [](const auto& r) {
    return fitted_scale(select(select(r.weights, 0, 0), 0, 0),
                        select(select(r.energy, 0, 0), 0, 0));
  };
  fault("divides by sqrt(embedding_size), not sqrt(head_dim)",
        std::abs(scale_in(right) - by_head) <= 1e-9, std::abs(scale_in(scaled) - by_head) <= 1e-9,
        text("The scale follows from the logarithms of the weights: ", scale_in(scaled),
             ", but a head_dim of 2 requires ", scale_in(right), "."));
}

}  // namespace

int main() {
  return run(3, [] {
    const Tensor sample_input = tensor({{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 0, 0}}, float64);
    self_attention(sample_input);
    multi_head(sample_input);
    std::cout << R"(
Notice: only one fault of the layer is an error. With the rest, the layer runs and the sizes
are right. Each fault breaks a law that can be tested without reference numbers: outputs are
permuted like their words, and the ratio of two weights is exp(scale * difference of scores).
)";
  });
}
