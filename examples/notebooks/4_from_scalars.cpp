// Notebook 4: dot-product attention of one query and two keys, the reason for the scale, and masks
// that set scores to -1e9.
#include <cmath>

#include "examples/notebooks/notebook.h"

using namespace heed::autograd;
using namespace heed::notebook;

namespace {

struct Attended {
  Tensor scores, output, p_attn;
};
// Does the work of three functions of the notebook. The scale is 1 in In [19], and 1/sqrt(d_k) in
// In [25] and In [59].
Attended dotproduct_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                              double scale, const Tensor& mask = {}) {
  Tensor scores = matmul(query, mT(key)) * scale;
  if (mask.defined()) scores = masked_fill(scores, eq(mask, 0.0), -1e9);
  const Tensor p_attn = softmax(scores, -1);
  return {scores, matmul(p_attn, value), p_attn};
}

Tensor ones64(const Shape& shape) { return ones(shape, float64); }

void two_keys() {
  cell("In [3]");
  const Tensor q1 = ones64({2}), k1 = 2 * ones64({2}), v1 = 3 * ones64({2});
  const Tensor k2 = ones64({2}), v2 = 4 * ones64({2});
  show("q1", q1);
  show("In [4]", "k1", k1);
  show("In [5]", "v1", v1);
  show("In [6]", "k2", k2);
  show("In [7]", "v2", v2);

  cell("In [8]", "scores of the two keys, then as probabilities");
  const Tensor C1 = matmul(q1, k1), C2 = matmul(q1, k2), C = stack({C1, C2}, 0);
  show("C1", C1);
  show("In [9]", "C2", C2);
  show("In [10]", "out", C);
  const Tensor p_attn = softmax(C, 0);
  show("In [11]", "p_attn", p_attn);
  show("In [12]", "p", softmax(tensor({2, 1}, float64), 0));

  cell("In [13]");
  const Tensor first = select(p_attn, 0, 0) * v1, second = select(p_attn, 0, 1) * v2;
  show("out", first);
  show("In [14]", "out", second);
  show("In [15]", "output", first + second);

  cell("In [16]", "the same as matrices");
  const Tensor Q = unsqueeze(q1, 0), K = stack({k1, k2}, 0), V = stack({v1, v2}, 0);
  show("Q", Q);
  show("In [17]", "K", K);
  show("In [18]", "V", V);
  const Attended a = dotproduct_attention(Q, K, V, 1);
  cell("In [20]");
  show("scores", a.scores);
  show("output", a.output);
  show("p_attn", a.p_attn);
}

void eight_dimensions() {
  cell("In [24]", "d = 8: the scores grow, and the weight of the second key is almost 0");
  const Tensor Q = ones64({1, 8}), K = stack({2 * ones64({8}), ones64({8})}, 0),
               V = stack({3 * ones64({8}), 4 * ones64({8})}, 0);
  const Attended plain = dotproduct_attention(Q, K, V, 1);
  show("scores", plain.scores);
  show("output", plain.output);
  show("p_attn", plain.p_attn);
  require("0.9997, 0.0003 as printed by PyTorch 0.4.1",
          allclose(plain.p_attn, tensor({{0.9997, 0.0003}}, float64), 0, 5e-5));
  show("text after In [24]", "C", select(plain.scores, 0, 0));

  cell("In [26]", "divided by sqrt(d_k)");
  const double scale = 1 / std::sqrt(8);
  const Attended scaled = dotproduct_attention(Q, K, V, scale);
  show("scores", scaled.scores);
  show("output", scaled.output);
  show("p_attn", scaled.p_attn);
  require("the fused attention() returns the same",
          allclose(attention(Q, K, V), scaled.output, 0, 1e-14));

  cell("derived.mask", "0 masks a key; the second mask leaves no key");
  const Tensor one_left = tensor({{1, 0}}, float64), none_left = tensor({{0, 0}}, float64);
  const Tensor values = V.detach().requires_grad_();
  const Attended a = dotproduct_attention(Q, K, V, scale, one_left),
                 b = dotproduct_attention(Q, K, values, scale, none_left);
  show("p_a", a.p_attn);
  show("output_a", a.output);
  show("p_b", b.p_attn);
  show("output_b", b.output);
  const KeepMask keep(ne(none_left, 0.0));
  const AttentionResult ours = attention_with_weights(Q, K, values, {.keep = keep});
  const auto reads_nothing = [&](const Tensor& output) {
    return max(abs(grad(sum(output), {values})[0])).item() == 0;
  };
  fault("-1e9 for masked keys, in a row where all keys are masked", reads_nothing(ours.output),
        reads_nothing(b.output),
        text("Weights with -1e9: ", b.p_attn.at({0, 0}), ", ", b.p_attn.at({0, 1}),
             ". All scores are equal and finite, so the masked values\nare averaged and "
             "receive gradients. Weights with -inf: ",
             ours.pattern.at({0, 0}), ", ", ours.pattern.at({0, 1}),
             ". The formula would\ndivide 0 by 0. In heed, the softmax of a fully masked row is "
             "0, with gradient 0."));
  require("the option FullyMasked::kUniform returns the result of -1e9",
          allclose(attention(Q, K, V, {.keep = keep, .fully_masked = FullyMasked::kUniform}),
                   b.output, 0, 0));
}

void batches() {
  cell("In [61]", "Q [3, 8, 4], K and V [3, 3, 8, 4]");
  const Tensor Q = ones64({3, 8, 4}), K = ones64({3, 3, 8, 4}), V = ones64({3, 3, 8, 4});
  const Attended o = dotproduct_attention(Q, K, V, 0.5);
  show_size("o", o.output);
  cell("derived.ones");
  show_size("o", o.output);
  show_size("p_attn", o.p_attn);
  require("all ones, each weight 1/8",
          allclose(o.output, ones64({3, 3, 8, 4}), 0, 1e-14) &&
              allclose(o.p_attn, full({3, 3, 8, 8}, 0.125, float64), 0, 1e-15));
  cell("derived.broadcast", "with ones all batches are equal; these inputs differ");
  show_size("o", attention(counted({3, 8, 4}, 7, 2, 13, 1 / 8.0),
                           counted({3, 3, 8, 4}, 5, 1, 17, 1 / 8.0),
                           counted({3, 3, 8, 4}, 11, 4, 19, 1 / 8.0)));
}

}  // namespace

int main() {
  return run(4, [] {
    two_keys();
    eight_dimensions();
    batches();
    std::cout << R"(
Notice: scores 4, 2 give weights 0.88, 0.12, and scores 16, 8 give 0.9997, 0.0003. Only the
vectors became longer, and dividing by sqrt(d_k) corrects for that. And -1e9 is not -inf: if
every key is masked with -1e9, no key is masked.
)";
  });
}
