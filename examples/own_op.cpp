// Defines an op outside of heed and checks its gradient. Nothing in heed has to change.
#include <cmath>
#include <iostream>

#include "autograd/check/gradcheck.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/ops.h"

using namespace heed::autograd;

namespace {

Tensor softsign(const Tensor& x);

// Inputs for the gradient check. g.apart() returns no values near 0, because |x| has a kink at 0.
Samples softsign_samples(SampleGen& g) {
  return {{"matrix", [](Args t) { return softsign(t[0]); }, {g.apart({3, 4})}},
          {"size 0", [](Args t) { return softsign(t[0]); }, {g.normal({0, 2})}}};
}
const Op kSoftsign({.name = "softsign", .saves = Saves::kInputs, .samples = softsign_samples});

// Returns x / (1 + |x|). The derivative 1 / (1 + |x|)^2 is computed with public ops, so it can be
// differentiated again.
Tensor softsign(const Tensor& x) {
  const auto f = [](auto v) { return v / (decltype(v)(1) + (v < decltype(v)(0) ? -v : v)); };
  return record(kSoftsign, {x}, elementwise(kSoftsign, x, f),
                [](const Vjp& v) -> Grads { return {v.grad / pow(1.0 + abs(v.input(0)), 2)}; });
}

}  // namespace

int main() {
  manual_seed(1);
  const Tensor x = randn({2, 3}, float64);
  const CheckReport right =
      gradcheck([](Args t) { return softsign(t[0]); }, std::vector{x}, {.order = 2});
  std::cout << "softsign: " << right << "\n";

  // This derivative has a wrong sign: 1 - |x| instead of 1 + |x|. The report names an entry and
  // both values of its derivative.
  const auto wrong = [](Args t) {
    return record(kSoftsign, {t[0]}, softsign(t[0].detach()),
                  [](const Vjp& v) -> Grads { return {v.grad / pow(1.0 - abs(v.input(0)), 2)}; });
  };
  const CheckReport caught = gradcheck(wrong, std::vector{x});
  std::cout << "with a wrong sign: " << caught << "\n";
  return right.ok() && !caught.ok() ? 0 : 1;
}
