// A program that links only heed::autograd. It checks that all ops are registered.
#include <iostream>

#include "autograd/autograd.h"

int main() {
  using namespace heed::autograd;
  const Tensor w = tensor({1, 2, 3}).requires_grad_();
  const Tensor g = grad(sum(w * w), {w})[0];
  std::cout << registered_checks().size() << " checks, gradient " << g << "\n";
  return registered_checks().size() > 50 && g.at({2}) == 6 ? 0 : 1;
}
