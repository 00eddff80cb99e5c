// Notebook 0: causal self-attention in NumPy, then several heads
// from one fused projection in PyTorch.
#include <cmath>

#include "examples/notebooks/notebook.h"
#include "nn/lab.h"

using namespace heed::autograd;
using namespace heed::notebook;
namespace nn = heed::nn;
namespace lab = heed::lab;

namespace {

Tensor create_mask(Index size) {
  return masked_fill(zeros({size, size}, float64), logical_not(tril_mask(size, size)), -kInf);
}

struct Attended {
  Tensor scaled, weights, values;
};
// Does the work of two functions of the notebook: `attention` (In [26]), whose scale is 1, and
// `scaled_dot_product` (In [49]), whose scale is 1/sqrt(d_k).
Attended scaled_dot_product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                            double scale) {
  const Tensor scaled = matmul(q, mT(k)) * scale, weights = softmax(scaled + mask, -1);
  return {scaled, weights, matmul(weights, v)};
}

// The class of In [68], which contains every step of In [36] to In [55]. If `permute_back` is
// false, forward() has the mistake of the notebook: a permutation is missing.
struct MultiHeadAttention {
  Tensor qkv_weight, qkv_bias, out_weight, out_bias;
  Index heads;

  struct Steps {
    Tensor x, qkv, split, by_head, q, k, v;
    Attended a;
    Tensor joined, output;
  };
  Steps forward(const Tensor& x, const Tensor& mask, bool permute_back = true) const {
    const Index batch = x.size(0), length = x.size(1), d_k = x.size(2) / heads;
    const Tensor qkv = linear(x, qkv_weight, qkv_bias);
    const Tensor split = reshape(qkv, {batch, length, heads, 3 * d_k});
    const Tensor by_head = permute(split, {0, 2, 1, 3});
    const auto qkv_parts = chunk(by_head, 3, -1);
    const Tensor &q = qkv_parts[0], &k = qkv_parts[1], &v = qkv_parts[2];
    const Attended a = scaled_dot_product(q, k, v, mask, 1 / std::sqrt(double(d_k)));
    const Tensor z = permute_back ? permute(a.values, {0, 2, 1, 3}) : a.values;
    const Tensor joined = reshape(z, {batch, length, heads * d_k});
    return {x, qkv, split, by_head, q, k, v, a, joined, linear(joined, out_weight, out_bias)};
  }
};

// Returns y[0, 0, :8] and y[0, 5, :8], followed by sum, sum of squares, minimum and maximum of y.
Tensor summary(const Tensor& y) {
  const auto row = [&](Index t) { return slice(select(select(y, 0, 0), 0, t), 0, 0, 8); };
  return cat({row(0), row(5), stack({sum(y), sum(y * y), min(y), max(y)}, 0)}, 0);
}

struct Drawn {
  Tensor q, k, v;
};
Drawn drawn_by_notebook() {
  const Tensor q = tensor({{-0.17726915, -0.60715105, 0.27040047, 1.32262995},
                           {-0.35466501, -1.00190095, 0.49971724, 0.52404003},
                           {-0.96664612, -0.92880235, 0.31031606, 1.47667384},
                           {2.58801299, 0.91252951, 0.47811754, -1.90542747},
                           {0.39023975, 1.89121848, -0.77398807, 0.55986816},
                           {-0.11781247, 0.66704404, 0.74030888, 0.80908705}},
                          float64);
  const Tensor k = tensor({{1.31088812, 0.03025595, 0.02526448, -0.6110974},
                           {0.03582415, 0.53263921, -0.34596446, 0.67464531},
                           {-0.21136, 1.38581759, -2.44668208, -0.46287517},
                           {-0.4030099, -0.90153947, -0.72863338, -1.69069868},
                           {-0.05841235, 0.88533137, 0.23723818, 1.64457024},
                           {0.90458896, -0.71120042, -0.77826392, 1.28070143}},
                          float64);
  const Tensor v = tensor({{0.76514641, -1.69868336, -1.59656269, -0.76914076},
                           {-0.81664305, -0.10608875, -1.38933315, -2.52314108},
                           {0.20812633, 0.43433177, -1.68935144, -0.07477778},
                           {1.00473554, 0.71972715, -0.40171648, -0.90225516},
                           {-1.03943008, -2.32277988, 1.68366562, 0.53501308},
                           {1.49572558, 0.46566221, -0.26506452, 1.31825037}},
                          float64);
  return {q, k, v};
}

void one_head() {
  cell("In [28]", "drawn without a seed; these are the values printed by the notebook");
  const auto [q, k, v] = drawn_by_notebook();
  show("q", q);
  show("k", k);
  show("v", v);

  cell("In [29]");
  const Tensor mask = create_mask(6);
  show("mask", mask);

  cell("In [30]");
  const auto [products, w, output] = scaled_dot_product(q, k, v, mask, 1);
  show("w", w);
  cell("text after In [30]", "\"sat\" focuses on \"cat\", \"on\" on \"the\"");
  show("argmax_row2", argmax(select(w, 0, 2), 0));
  show("argmax_row3", argmax(select(w, 0, 3), 0));

  show("In [31]", "out", output);
  require("row 1 equals that of the notebook",
          allclose(select(output, 0, 1),
                   tensor({-0.19591809, -0.73105386, -1.47065405, -1.83483723}, float64), 0, 4e-8));
  require("the fused attention() returns the same",
          allclose(attention(q, k, v, {.scale = 1, .causal = true}), output, 0, 1e-14));

  cell("derived.scaled", "with the 1/sqrt(d_k) of the formula above the code");
  const Attended scaled = scaled_dot_product(q, k, v, mask, 0.5);
  show("w", scaled.weights);
  show("out", scaled.values);
  const double right = fitted_scale(scaled.weights, products), wrong = fitted_scale(w, products);
  fault("the factor 1/sqrt(d_k) of the formula above the code is missing",
        std::abs(right - 0.5) <= 1e-9, std::abs(wrong - 0.5) <= 1e-9,
        text("The scale follows from the logarithms of the weights: ", wrong,
             ", but d_k = 4 requires ", right, ".\nRow 1 would be ", scaled.weights.at({1, 0}),
             ", ", scaled.weights.at({1, 1}), "."));
  const std::string reason = error_text([] { ScoreBias(tril(ones({6, 6}, float64))); });
  fault("the text sets the mask to 0 for the future and 1 for the past",
        error_text([&] { ScoreBias{mask}; }).empty(), reason.empty(), reason);
  const Tensor large = 1000.0 * products;
  const Tensor by_exp = exp(large) / sum(exp(large), {1}, true);
  fault("In [15]: a softmax that does not subtract the row's maximum",
        all(isfinite(softmax(large, -1))).item() != 0, all(isfinite(by_exp)).item() != 0,
        "With scores a thousand times as large, exp overflows, and inf / inf is NaN.");
}

void many_heads() {
  cell("In [36]",
       "to In [55]: without a seed in the notebook, manual_seed(0) here; only sizes are compared");
  manual_seed(0);
  const Tensor x = randn({1, 6, 512});
  const nn::Linear qkv_layer({.in = 512, .out = 3 * 512}), linear_layer({.in = 512, .out = 512});
  const MultiHeadAttention mha{qkv_layer.weight, qkv_layer.bias, linear_layer.weight,
                               linear_layer.bias, 8};
  const Tensor mask = triu(full({1, 8, 6, 6}, -kInf), 1);
  const auto s = mha.forward(x, mask);
  show_size("x", s.x);
  struct Sized {
    const char *cell, *name;
    Tensor x;
  };
  const Sized sizes[] = {{"In [38]", "qkv", s.qkv},
                         {"In [41]", "qkv", s.split},
                         {"In [42]", "qkv", s.by_head},
                         {"In [43]", "q", s.q},
                         {"In [43]", "k", s.k},
                         {"In [43]", "v", s.v},
                         {"In [44]", "scaled", s.a.scaled},
                         {"In [47]", "attention_weights", s.a.weights},
                         {"In [48]", "values", s.a.values},
                         {"In [53]", "attention_weights", s.a.weights},
                         {"In [53]", "values", s.a.values},
                         {"In [54]", "values", s.joined},
                         {"In [55]", "output", s.output},
                         {"In [69]", "x", s.x},
                         {"In [69]", "qkv", s.qkv},
                         {"In [69]", "qkv", s.split},
                         {"In [69]", "qkv", s.by_head},
                         {"In [69]", "q", s.q},
                         {"In [69]", "k", s.k},
                         {"In [69]", "v", s.v},
                         {"In [69]", "attention_weights", s.a.weights},
                         {"In [69]", "values", s.a.values},
                         {"In [69]", "output", s.output}};
  for (const auto& [label, name, y] : sizes) {
    cell(label);
    show_size(name, y);
  }
  show("In [46]", "mask[0][1]", select(select(mask, 0, 0), 0, 1));

  cell("derived.mha512",
       "parts of two rows of the output, then its sum, sum of squares, minimum and maximum");
  show("correct_transposed_first", summary(s.output));
  show("as_in_seed_reshape_bug", summary(mha.forward(x, mask, false).output));
}

void two_small_heads() {
  cell("derived.mha4",
       "the same layer, small: 2 heads of 2, 3 positions, weights computed by a rule");
  const MultiHeadAttention small{counted({12, 4}, 7, 3, 11, 1 / 8.0),
                                 counted({12}, 3, 0, 5, 1 / 8.0), counted({4, 4}, 5, 2, 7, 1 / 4.0),
                                 counted({4}, 1, 0, 3, 1 / 8.0), 2};
  const Tensor input = counted({1, 3, 4}, 5, 1, 9, 1 / 4.0);
  const auto permuted = [&](const Tensor& t) { return small.forward(t, create_mask(3)).output; };
  const auto as_printed = [&](const Tensor& t) {
    return small.forward(t, create_mask(3), false).output;
  };
  show("attention_weights", small.forward(input, create_mask(3)).a.weights);
  show("correct_transposed_first", permuted(input));
  show("as_in_seed_reshape_bug", as_printed(input));
  nn::MultiHeadAttention module({.d_model = 4, .heads = 2, .causal = true, .dtype = float64});
  // The notebook's rows are ordered [heads, 3, d_k], those of nn::MultiHeadAttention [3, heads,
  // d_k].
  const auto reordered = [](const Tensor& rows) {
    return reshape(transpose(reshape(rows, {2, 3, 2, -1}), 0, 1), rows.shape());
  };
  module.weights.in_proj_weight = reordered(small.qkv_weight);
  module.weights.in_proj_bias = reordered(small.qkv_bias);
  module.weights.out_proj_weight = small.out_weight;
  module.weights.out_proj_bias = small.out_bias;
  require("nn::MultiHeadAttention with reordered rows returns the same",
          allclose(module(input), permuted(input), 0, 1e-14));
  const Tensor right = lab::reach(permuted, input, arange(3)),
               wrong = lab::reach(as_printed, input, arange(3));
  const auto is_causal = [](const Tensor& reach) { return max(triu(reach, 1)).item() == 0; };
  fault("In [54]: heads joined without the permute back", is_causal(right), is_causal(wrong),
        text("Which input (column) affects which output (row), with the permute:\n", ne(right, 0),
             "\nand in the notebook, where every shape is right too:\n", ne(wrong, 0)));
}

}  // namespace

int main() {
  return run(0, [] {
    one_head();
    many_heads();
    two_small_heads();
    std::cout << R"(
Notice: without the permute, all sizes and weights are right, and the loss would only be
too low. The derivative of an output with respect to a later input shows the mistake: it
must be exactly 0.0. The missing scale does not change a size either: row 1 changes from
0.45, 0.55 to 0.39, 0.61, and more with a larger d_k.
)";
  });
}
