#include "examples/exercises/attention.h"

using namespace heed::autograd;

namespace heed::exercises {

void blank(const std::string& name) {
  throw ValueError(name + " is blank: fill it in, in examples/exercises/attention.cpp");
}

Tensor hidden_attention(const nn::HeadWeights& self, const Tensor& x) {
  const Index batch = x.size(0), tokens = x.size(1), d_model = x.size(2), heads = self.W_Q.size(0),
              d_head = self.W_Q.size(2);
  const auto project = [&](const Tensor& W, const Tensor& b) {
    const Tensor y =
        einsum("batch posn d_model, nheads d_model d_head -> batch nheads posn d_head", {x, W});
    return y + unsqueeze(b, 1);
  };
  const Tensor scores =
      attention_scores(project(self.W_Q, self.b_Q), project(self.W_K, self.b_K), d_model);
  expect_shape(scores, {batch, heads, tokens, tokens});
  const Tensor masked = expect_shape(apply_causal_mask(scores), scores.shape());
  const Tensor pattern = expect_shape(attention_pattern(masked), scores.shape());
  const Tensor z = weigh_values(pattern, project(self.W_V, self.b_V));
  expect_shape(z, {batch, heads, tokens, d_head});
  const Tensor joined = expect_shape(join_heads(z), {batch, tokens, heads * d_head});
  return matmul(joined, reshape(self.W_O, {heads * d_head, d_model})) + self.b_O;
}

}  // namespace heed::exercises
