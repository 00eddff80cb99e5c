// Notebook 4: dot-product attention from two keys up, why it is scaled, and masks of -1e9.
#include <cmath>

#include "autograd/engine/engine.h"
#include "examples/notebooks/shared.h"
#include "tests/golden/page.h"

using namespace heed::autograd;
using namespace heed::notebook;

namespace {

struct Attended {
  Tensor scores, output, p_attn;
};
// The notebook's three functions in one: In [19] has scale 1, In [25] and In [59] 1/sqrt(d_k).
Attended dotproduct_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                              double scale, const Tensor& mask = {}) {
  Tensor scores = matmul(query, mT(key)) * scale;
  if (mask.defined()) scores = masked_fill(scores, eq(mask, 0.0), -1e9);
  const Tensor p_attn = softmax(scores, -1);
  return {scores, matmul(p_attn, value), p_attn};
}

Tensor ones64(const Shape& shape) { return ones(shape, float64); }

void two_keys(Page& page) {
  page.cell("In [3] to In [7]");
  const Tensor q1 = ones64({2}), k1 = 2 * ones64({2}), v1 = 3 * ones64({2});
  const Tensor k2 = ones64({2}), v2 = 4 * ones64({2});
  page.tensor("s4.in3.q1:q1", q1, "tensor([1., 1.])");
  page.tensor("s4.in4.k1:k1", k1, "tensor([2., 2.])");
  page.tensor("s4.in5.v1:v1", v1, "tensor([3., 3.])");
  page.tensor("s4.in6.k2:k2", k2, "tensor([1., 1.])");
  page.tensor("s4.in7.v2:v2", v2, "tensor([4., 4.])");

  page.cell("In [8] to In [12]  how well they fit, as probabilities");
  const Tensor C1 = matmul(q1, k1), C2 = matmul(q1, k2), C = stack({C1, C2}, 0);
  page.tensor("s4.in8.C1:C1", C1, "tensor(4.)");
  page.tensor("s4.in9.C2:C2", C2, "tensor(2.)");
  page.tensor("s4.in10:out", C, "tensor([4., 2.])");
  const Tensor p_attn = softmax(C, 0);
  page.tensor("s4.in11.p_attn:p_attn", p_attn, "tensor([0.8808, 0.1192])");
  page.tensor("s4.in12:p", softmax(tensor({2, 1}, float64), 0), "tensor([0.7311, 0.2689])");

  page.cell("In [13] to In [15]");
  const Tensor first = select(p_attn, 0, 0) * v1, second = select(p_attn, 0, 1) * v2;
  page.tensor("s4.in13:out", first, "tensor([2.6424, 2.6424])");
  page.tensor("s4.in14:out", second, "tensor([0.4768, 0.4768])");
  page.tensor("s4.in15:output", first + second, "tensor([3.1192, 3.1192])");

  page.cell("In [16] to In [20]  the same as matrices");
  const Tensor Q = unsqueeze(q1, 0), K = stack({k1, k2}, 0), V = stack({v1, v2}, 0);
  page.tensor("s4.in16.Q:Q", Q, "tensor([[1., 1.]])");
  page.tensor("s4.in17.K:K", K, "tensor([[2., 2.],\n        [1., 1.]])");
  page.tensor("s4.in18.V:V", V, "tensor([[3., 3.],\n        [4., 4.]])");
  const Attended a = dotproduct_attention(Q, K, V, 1);
  page.tensor("s4.in20:scores", a.scores, "tensor([[4., 2.]])");
  page.tensor("s4.in20:output", a.output, "tensor([[3.1192, 3.1192]])");
  page.tensor("s4.in20:p_attn", a.p_attn, "tensor([[0.8808, 0.1192]])");
}

void eight_dimensions(Page& page) {
  page.cell("In [21] to In [24]  d = 8: the scores grow, the second key is all but gone");
  const Tensor Q = ones64({1, 8}), K = stack({2 * ones64({8}), ones64({8})}, 0),
               V = stack({3 * ones64({8}), 4 * ones64({8})}, 0);
  const Attended plain = dotproduct_attention(Q, K, V, 1);
  page.tensor("s4.in24:scores", plain.scores, "tensor([[16.,  8.]])");
  page.tensor("s4.in24:output", plain.output,
              "tensor([[3.0003, 3.0003, 3.0003, 3.0003, 3.0003, 3.0003, 3.0003, 3.0003]])");
  page.tensor("s4.in24:p_attn", plain.p_attn);
  page.check("0.9997, 0.0003 in torch 0.4.1's print",
             allclose(plain.p_attn, tensor({{0.9997, 0.0003}}, float64), 0, 5e-5));
  page.keep("s4.md.scores:C", select(plain.scores, 0, 0));

  page.cell("In [26]  divided by sqrt(d_k)");
  const double scale = 1 / std::sqrt(8);
  const Attended scaled = dotproduct_attention(Q, K, V, scale);
  page.tensor("s4.in26.printed_scores:scores", scaled.scores, "tensor([[5.6569, 2.8284]])");
  page.tensor("s4.in26:scores", scaled.scores, "tensor([[5.6569, 2.8284]])");
  page.tensor("s4.in26:output", scaled.output,
              "tensor([[3.0558, 3.0558, 3.0558, 3.0558, 3.0558, 3.0558, 3.0558, 3.0558]])");
  page.tensor("s4.in26:p_attn", scaled.p_attn, "tensor([[0.9442, 0.0558]])");
  page.check("attention(), fused, says the same",
             allclose(attention(Q, K, V), scaled.output, 0, 1e-14));

  // Masks: 0 hides a key. In the second, no key is left.
  const Tensor one_left = tensor({{1, 0}}, float64), none_left = tensor({{0, 0}}, float64);
  const Tensor values = V.detach().requires_grad();
  const Attended a = dotproduct_attention(Q, K, V, scale, one_left),
                 b = dotproduct_attention(Q, K, values, scale, none_left);
  page.keep("s4.derived.mask:p_a", a.p_attn);
  page.keep("s4.derived.mask:output_a", a.output);
  page.keep("s4.derived.mask:p_b", b.p_attn);
  page.keep("s4.derived.mask:output_b", b.output);
  const KeepMask keep(ne(none_left, 0.0));
  const AttentionResult ours = attention_with_weights(Q, K, values, {.keep = keep});
  const auto reads_nothing = [&](const Tensor& output) {
    return max(abs(grad(sum(output), {values})[0])).item() == 0;
  };
  page.fault("-1e9 for a hidden key, in a row that has no other", reads_nothing(ours.output),
             reads_nothing(b.output),
             text("Weights of -1e9: ", b.p_attn.at({0, 0}), ", ", b.p_attn.at({0, 1}),
                  ". It is finite, so all keys are alike, and the hidden values\nare averaged and "
                  "get gradients. Of -inf: ",
                  ours.pattern.at({0, 0}), ", ", ours.pattern.at({0, 1}),
                  ". The formula would divide 0 by 0; heed\nsays that the softmax of nothing is 0, "
                  "with gradient 0."));
  page.check("who wants the other gets it by name: FullyMasked::kUniform",
             allclose(attention(Q, K, V, {.keep = keep, .fully_masked = FullyMasked::kUniform}),
                      b.output, 0, 0));
}

void batches(Page& page) {
  page.cell("In [58] to In [61]  Q [3, 8, 4], K and V [3, 3, 8, 4]");
  const Tensor Q = ones64({3, 8, 4}), K = ones64({3, 3, 8, 4}), V = ones64({3, 3, 8, 4});
  const Attended o = dotproduct_attention(Q, K, V, 0.5);
  page.size("s4.in61.size:o", o.output, "torch.Size([3, 3, 8, 4])");
  page.keep("s4.derived.ones:o", o.output);
  page.keep("s4.derived.ones:p_attn", o.p_attn);
  page.check("all ones, each weight 1/8",
             allclose(o.output, ones64({3, 3, 8, 4}), 0, 1e-14) &&
                 allclose(o.p_attn, full({3, 3, 8, 8}, 0.125, float64), 0, 1e-15));
  // Ones cannot tell one batch from another; these can.
  page.keep("s4.derived.broadcast:o", attention(counted({3, 8, 4}, 7, 2, 13, 1 / 8.0),
                                                counted({3, 3, 8, 4}, 5, 1, 17, 1 / 8.0),
                                                counted({3, 3, 8, 4}, 11, 4, 19, 1 / 8.0)));
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv, 4, [](Page& page) {
    two_keys(page);
    eight_dimensions(page);
    batches(page);
    page.say(
        "\nNotice: scores 4, 2 give 0.88, 0.12 and scores 16, 8 give 0.9997, 0.0003, though the\n"
        "vectors only became longer: sqrt(d_k) undoes that. And -1e9 is not -inf: where every key\n"
        "is hidden it hides none of them.");
  });
}
