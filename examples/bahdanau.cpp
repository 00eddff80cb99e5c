// Additive attention (Bahdanau et al. 2015), built from public ops. It uses the masks of
// dot-product attention (KeepMask). A small network computes the score of a query and a key.
// Vaswani et al. (2017) use a dot product for this.
//
//   scores_ij = v . tanh(W_q q_i + W_k k_j),  weights = softmax(masked scores),  output = weights k
#include <cstdio>
#include <iostream>
#include <limits>

#include "autograd/check/gradcheck.h"
#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"

using namespace heed::autograd;

namespace {

struct Result {
  Tensor output;   // [..., Tq, d]
  Tensor weights;  // [..., Tq, Tk]
};

// Computes additive attention. Shapes: queries [..., Tq, d], memory [..., Tk, d] (both keys and
// values), w_q and w_k [h, d], v [h].
Result additive(const Tensor& queries, const Tensor& memory, const Tensor& w_q, const Tensor& w_k,
                const Tensor& v, const KeepMask& keep) {
  const Tensor q = unsqueeze(linear(queries, w_q), -2);  // [..., Tq, 1, h]
  const Tensor k = unsqueeze(linear(memory, w_k), -3);   // [..., 1, Tk, h]
  const Tensor scores = masked_fill(matmul(tanh(q + k), v), logical_not(keep.tensor()), -kInf);
  const Tensor weights = softmax(scores, -1);  // if all scores of a row are -inf, its weights are 0
  return {matmul(weights, memory), weights};
}

}  // namespace

int main() {
  manual_seed(1);
  const Index batch = 3, tq = 3, tk = 4, d = 5, h = 6;
  const auto draw = [](const Shape& shape) { return randn(shape, float64).requires_grad_(); };
  const Tensor queries = draw({batch, 1, tq, d}), memory = draw({batch, 1, tk, d});  // 1 head
  const Tensor w_q = draw({h, d}), w_k = draw({h, d}), v = draw({h});
  const std::vector<Index> lengths{4, 2, 0};
  const KeepMask keep = KeepMask::padding(lengths, tk) & KeepMask::causal(tq, tk);

  const Result r = additive(queries, memory, w_q, w_k, v, keep);
  std::printf("weights, query by key, of sequences with 4, 2 and 0 keys\n");
  for (Index i = 0; i < tq; ++i) {
    for (Index b = 0; b < batch; ++b) {
      for (Index j = 0; j < tk; ++j) std::printf("%.3f ", r.weights.at({b, 0, i, j}));
      std::printf("%s", b < batch - 1 ? "   " : "\n");
    }
  }
  const Tensor dot = attention_with_weights(queries, memory, memory, {.keep = keep}).pattern;
  const bool same_zeros = allclose(to(ne(dot, 0.0), float64), to(ne(r.weights, 0.0), float64));
  std::printf("0 exactly where the dot-product weights are: %s\n", same_zeros ? "yes" : "NO");

  const auto f = [&](Args t) { return additive(t[0], t[1], t[2], t[3], t[4], keep).output; };
  const CheckReport report = gradcheck(f, std::vector{queries, memory, w_q, w_k, v}, {.order = 2});
  std::cout << report << "\n\n";

  // `dirty` has NaN in every key that no query may read. `cleared` has 0 there.
  const Tensor unread = mT(logical_not(any(keep.tensor(), {-2}, true)));  // [batch, 1, tk, 1]
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor dirty = masked_fill(memory.detach(), unread, nan);
  const Tensor cleared = masked_fill(dirty, unread, 0);
  const Tensor cotangent = randn(r.output.shape(), float64);
  const auto output_and_gradients = [&](const Tensor& m) {
    const Tensor out = additive(queries, m, w_q, w_k, v, keep).output;
    std::vector<Tensor> all = grad(sum(out * cotangent), {queries, w_q, w_k, v});
    all.insert(all.begin(), out);
    return all;
  };
  const auto clean = output_and_gradients(memory), late = output_and_gradients(dirty),
             early = output_and_gradients(cleared);
  const char* names[] = {"output", "dL/dq", "dL/dW_q", "dL/dW_k", "dL/dv"};
  std::printf("NaN in padded keys    only scores masked     cleared before use\n");
  bool unchanged = true, spoilt = true;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const bool finite = all(isfinite(late[i])).item() != 0;
    const bool same = allclose(early[i], clean[i], 0, 0);
    unchanged = unchanged && same, spoilt = spoilt && !finite;
    std::printf("%-19s   %-20s   %s\n", names[i], finite ? "finite" : "NaN",
                same ? "unchanged" : "CHANGED");
  }
  std::printf(
      "\nNotice: masking the scores is not enough, because 0 * NaN is NaN: in weights * memory "
      "and\n"
      "in every product of the backward pass. attention() needs no clearing: an unread key changes "
      "no row.\n");
  return same_zeros && report.ok() && unchanged && spoilt ? 0 : 1;
}
