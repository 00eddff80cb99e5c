// Computes the gradient of attention by hand and compares it with the engine's.
//
//   S = Q K^T / sqrt(d),  A = softmax(S) for each row,  O = A V.  L is a scalar function of O. The
//   gradients follow from dO = dL/dO, where * is the product of elements:
//   dV = A^T dO,  dA = dO V^T,  dS = A * (dA - rowsum(A * dA)),  dQ = dS K / sqrt(d),
//   dK = dS^T Q / sqrt(d).
#include <cmath>
#include <cstdio>

#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

using namespace heed::autograd;

int main() {
  manual_seed(1);
  const Index tokens = 5, d = 3;
  const auto draw = [&] { return randn({tokens, d}, float64); };
  const Tensor q = draw().requires_grad_(), k = draw().requires_grad_(),
               v = draw().requires_grad_();
  const Tensor d_out = draw();
  const KeepMask causal = KeepMask::causal(tokens, tokens);

  // The engine computes the gradients. Every intermediate result is a tensor, so grad() can compute
  // its gradient, too.
  const AttentionResult r = attention_with_weights(q, k, v, {.keep = causal});
  const auto engine = grad(sum(r.output * d_out), {q, k, v, r.pattern, r.scores});

  const NoGrad by_hand;
  const double scale = 1 / std::sqrt(double(d));
  const Tensor a = r.pattern.detach();
  const Tensor dv = matmul(mT(a), d_out);
  const Tensor da = matmul(d_out, mT(v));
  const Tensor ds = a * (da - sum(a * da, {-1}, true));
  const Tensor dq = matmul(ds, k) * scale;
  const Tensor dk = matmul(mT(ds), q) * scale;

  const Tensor hand[] = {dq, dk, dv, da, ds};
  const char* names[] = {"dL/dQ", "dL/dK", "dL/dV", "dL/dA", "dL/dS"};
  bool ok = true;
  for (std::size_t i = 0; i < 5; ++i) {
    const double error = max(abs(engine[i] - hand[i])).item();
    ok = ok && error <= 1e-14;
    std::printf("%s  largest difference %.1e\n", names[i], error);
  }
  std::printf("\nrow sums of dL/dS: at most %.1e\n", max(abs(sum(ds, {-1}))).item());
  std::printf(
      "Notice: dL/dS is 0 where the mask hides a key, because A is 0 there. dL/dA is not 0\n"
      "there: it is the gain per unit of weight, and the mask does not change that.\n");
  return ok ? 0 : 1;
}
