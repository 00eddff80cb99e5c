// An example of 30 lines: a model with two weight matrices, its gradients,
// and a check of the gradients.
#include <iostream>

#include "autograd/autograd.h"

using namespace heed::autograd;

int main() {
  manual_seed(1);  // the random numbers are those of PyTorch
  const Tensor x = randn({6, 4}, float64), targets = randint(0, 3, {6});
  const Tensor w1 = randn({4, 8}, float64).requires_grad_();
  const Tensor w2 = randn({8, 3}, float64).requires_grad_();

  const auto compute_loss = [&](Args w) {
    return cross_entropy(matmul(gelu(matmul(x, w[0])), w[1]), targets);
  };
  const Tensor loss = compute_loss(std::vector{w1, w2});
  backward(loss);  // adds the gradients to w1.grad() and w2.grad()
  std::cout << "loss " << loss.item() << ", dL/dw2 " << w2.grad() << "\n";

  // backward() freed the graph, so the loss is computed again. With create_graph,
  // a gradient is part of a graph and can be differentiated, too.
  const Tensor again = compute_loss(std::vector{w1, w2});
  const Tensor g = grad(again, w1, {.create_graph = true});
  const Tensor penalty_grad = grad(sum(g * g), w1);
  std::cout << "d|dL/dw1|^2/dw1 has shape " << penalty_grad.shape() << "\n";

  // Checks first and second derivatives with finite differences and dual numbers.
  const CheckReport report = gradcheck(compute_loss, std::vector{w1, w2}, {.order = 2});
  std::cout << report << "\n";
  return report.ok() ? 0 : 1;
}
