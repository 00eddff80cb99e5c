// Everything registered is still there after linking through a static library: ops and layers.
#include <cstddef>
#include <cstdint>
#include <iostream>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"

std::size_t count_checks();
std::int64_t count_model();

int main() {
  using namespace heed::autograd;
  const Tensor w = tensor({1, 2, 3}).requires_grad();
  const Tensor g = grad(sum(w * w), {w})[0];
  std::cout << count_checks() << " checks, " << count_model() << " parameters, gradient " << g
            << "\n";
  return count_checks() > 60 && count_model() == 1000 && g.at({2}) == 6 ? 0 : 1;
}
