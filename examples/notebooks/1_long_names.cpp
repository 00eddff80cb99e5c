// Notebook 1: attention with weights per head, W_Q [heads, d_model, d_head], in einsums whose
// labels are names.
#include <cmath>

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "examples/notebooks/page.h"

using namespace heed::autograd;
using namespace heed::notebook;

namespace {

// In [1]. -inf where the mask is true: above the diagonal.
Tensor hidden_apply_causal_mask(const Tensor& attn_scores, double masked_value = -kInf) {
  const Tensor mask = gt(triu(ones({attn_scores.size(-2), attn_scores.size(-1)}), 1), 0.0);
  return masked_fill(attn_scores, mask, masked_value);
}

struct HiddenAttention {
  Tensor W_Q, W_K, W_V;  // [heads, d_model, d_head]
  Tensor W_O;            // [heads, d_head, d_model]
  Tensor b_Q, b_K, b_V;  // [heads, d_head]
  Tensor b_O;            // [d_model]

  struct Steps {
    Tensor q, attn_pattern, z, attn_out;
  };
  Steps forward(const Tensor& x) const {
    const std::int64_t batch = x.size(0), tokens = x.size(1), heads = W_Q.size(0),
                       d_head = W_Q.size(2);
    const auto project = [&](const Tensor& W, const Tensor& b) {
      const Tensor y =
          einsum("batch posn d_model, nheads d_model d_head -> batch posn nheads d_head", {x, W}) +
          b;
      return expect_shape(y, {batch, tokens, heads, d_head});
    };
    const Tensor q = project(W_Q, b_Q), k = project(W_K, b_K), v = project(W_V, b_V);
    const Tensor attn_scores = einsum(
        "batch posn_Q nheads d_head, batch posn_K nheads d_head -> batch nheads posn_Q posn_K",
        {q, k});
    expect_shape(attn_scores, {batch, heads, tokens, tokens});
    const Tensor masked = hidden_apply_causal_mask(attn_scores / std::sqrt(double(d_head)));
    const Tensor attn_pattern = softmax(masked, -1);
    const Tensor z = einsum(
        "batch posn_K nheads d_head, batch nheads posn_Q posn_K -> batch posn_Q nheads d_head",
        {v, attn_pattern});
    expect_shape(z, {batch, tokens, heads, d_head});
    const Tensor attn_out =
        einsum("batch posn_Q nheads d_head, nheads d_head d_model -> batch posn_Q d_model",
               {z, W_O}) +
        b_O;
    return {q, attn_pattern, z, expect_shape(attn_out, x.shape())};
  }
};

using Fill = Tensor (*)(const Shape&);
// All weights by `fill`, biases 0 as in the notebook.
HiddenAttention make(std::int64_t heads, std::int64_t d_model, std::int64_t d_head, Fill fill) {
  const Shape in{heads, d_model, d_head}, out{heads, d_head, d_model};
  const Tensor b = zeros({heads, d_head}, float64);
  return {fill(in), fill(in), fill(in), fill(out), b, b, b, zeros({d_model}, float64)};
}
Tensor all_ones(const Shape& shape) { return ones(shape, float64); }
Tensor normal(const Shape& shape) { return randn(shape, float64); }

// The notebook's last cell: same output, test passed.
bool passes(const HiddenAttention& truth, const HiddenAttention& user, const Tensor& x) {
  return allclose(truth.forward(x).attn_out, user.forward(x).attn_out);
}

// Two wrong layers: the heads of W_O in reverse order, and head 0's keys for every head.
HiddenAttention swapped_heads(HiddenAttention a) {
  a.W_O = flip(a.W_O, 0);
  return a;
}
HiddenAttention one_key_for_all(HiddenAttention a) {
  a.W_K = expand(slice(a.W_K, 0, 0, 1), a.W_K.shape());
  return a;
}

void notebook(Page& page) {
  page.cell("In [4]");
  const Tensor test1 = tensor({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  page.tensor("s1.in4.causal:masked", hidden_apply_causal_mask(test1),
              "tensor([[1., -inf, -inf],\n"
              "        [4., 5., -inf],\n"
              "        [7., 8., 9.]])");
  Tensor unsolved;  // the exercise is left open, and allclose has nothing to compare
  try {
    allclose(unsolved, test1);
  } catch (const Error& e) {
    page.say(e.what());
    page.keep("s1.in4.error:text", ones({}));
  }
  const auto first_row_sees_itself_alone = [](const Tensor& masked) {
    return softmax(masked, -1).at({0, 0}) == 1;
  };
  const Tensor upper = masked_fill(test1, tril_mask(3, 3, -1), -kInf);
  page.fault("the text: \"only the upper triangular values of the matrix are left\"",
             first_row_sees_itself_alone(hidden_apply_causal_mask(test1)),
             first_row_sees_itself_alone(upper), "The code keeps the lower ones, and must.");

  page.cell("In [None]  never run there: HiddenAttention(2, 30, 10), all ones, on rand of seed 0");
  manual_seed(0);
  const Tensor test = to(rand({12, 20, 30}), float64);
  const HiddenAttention ground_truth = make(2, 30, 10, all_ones);
  const Tensor out = ground_truth.forward(test).attn_out;
  page.keep("s1.derived.rand:attn_out[:,:,0]", select(out, 2, 0));
  page.check("every output is the same along d_model",
             allclose(out, expand(slice(out, 2, 0, 1), out.shape()), 1e-12));

  page.cell("The same on an input made by a rule, and small");
  std::vector<double> rule;
  for (int b = 0; b < 12; ++b)
    for (int t = 0; t < 20; ++t)
      for (int m = 0; m < 30; ++m) rule.push_back(((7 * b + 5 * t + 3 * m) % 11 - 5) / 64.0);
  const Tensor by_rule = ground_truth.forward(from_data(rule, {12, 20, 30})).attn_out;
  page.keep("s1.derived.formula:attn_out[:,:,0]", select(by_rule, 2, 0));
  const Tensor x =
      tensor({{.25, .5, -.125}, {-.5, .75, .125}, {.375, -.25, .5}, {-.125, -.375, .25}}, float64);
  const auto small = make(2, 3, 2, all_ones).forward(unsqueeze(x, 0));
  page.keep("s1.derived.small:q", small.q);
  page.keep("s1.derived.small:attn_pattern", small.attn_pattern);
  page.keep("s1.derived.small:z", small.z);
  page.keep("s1.derived.small:attn_out", small.attn_out);

  // How many of two wrong layers does the notebook's test notice?
  const auto notices = [&](const HiddenAttention& truth) {
    return !passes(truth, swapped_heads(truth), test) +
           !passes(truth, one_key_for_all(truth), test);
  };
  page.fault("the test's weights are all ones", notices(make(2, 30, 10, normal)) == 2,
             notices(ground_truth) > 0,
             "With ones, swapped heads and a key shared by all heads both pass all tests;\n"
             "with random weights neither does.");

  std::string refusal;
  const Tensor scores = test1.detach().requires_grad() * 1.0;
  const auto accepted = [&](auto mask) {
    try {
      mask();
    } catch (const ValueError& e) {
      refusal = e.what();
      return false;
    }
    return true;
  };
  const bool as_value = accepted([&] { hidden_apply_causal_mask(scores); }),
             in_place = accepted([&] { fill_(slice(scores, 1, 1, 3), -kInf); });
  page.fault("masked_fill_: in place on a tensor of the graph", as_value, in_place, refusal);

  page.say(
      "\nNotice: with equal weights every head is the same head and every channel the same "
      "number,\n"
      "so a test on them passes for any wiring. Test with random weights. And names in an einsum\n"
      "say which axis is which; the shape asserts after each line could not.");
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, 1, notebook); }
