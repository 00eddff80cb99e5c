// Lab: attention weights are not identifiable, because other weights give the same output (Brunner
// et al. 2020, arXiv 1908.04211). A row a of attention weights over T tokens has an effect only
// through the product a V, where V is [T, d_value]. Let delta be a change of a whose elements add
// up to 0, with delta V = 0. Then a + delta gives the same output of the head. There are T - rank
// [V, 1] >= T - d_value - 1 linearly independent changes delta. [V, 1] is V with a column of ones
// appended.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autograd/ops/ops.h"
#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::lab;

namespace {

double norm(const Tensor& x) { return std::sqrt(sum(x * x).item()); }

// Subtracts from x its projection onto the span of the orthonormal `basis`. Subtracts twice, to
// remove the rounding error of the first time.
Tensor outside(Tensor x, const std::vector<Tensor>& basis) {
  for (int twice = 0; twice < 2; ++twice)
    for (const Tensor& b : basis) x = x - b * sum(x * b);
  return x;
}

// Returns an orthonormal basis of the span of the columns of m [T, n] (Gram-Schmidt).
// The size of the basis is the rank of m.
std::vector<Tensor> span_of_columns(const Tensor& m) {
  std::vector<Tensor> basis;
  for (Index i = 0; i < m.size(1); ++i) {
    const Tensor column = select(m, 1, i), rest = outside(column, basis);
    if (norm(rest) > 1e-9 * norm(column)) basis.push_back(rest / norm(rest));
  }
  return basis;
}

// Returns the largest step for which a + step * delta has no negative element.
double largest_step(const Tensor& a, const Tensor& delta) {
  double step = HUGE_VAL;
  for (Index i = 0; i < a.size(0); ++i)
    if (delta.at({i}) < 0) step = std::min(step, -a.at({i}) / delta.at({i}));
  return step;
}

}  // namespace

int main() {
  const NoGrad guard;
  const Trainer run = induction_run(1);  // the model is not trained
  Probe probe;
  probe.record(attention_site(1, "hook_pattern")).record(attention_site(1, "hook_v"));
  run.model(long_blocks(1).inputs, {.probe = &probe});
  // Head 0 of layer 1: a [T] has the attention weights of the last token, and v is [T, d_value].
  const Tensor pattern = probe.value(attention_site(1, "hook_pattern"));  // [1, H, T, T]
  const Tensor a = to(select(select(select(pattern, 0, 0), 0, 0), 0, -1), float64);
  const Tensor v =
      to(select(select(probe.value(attention_site(1, "hook_v")), 0, 0), 1, 0), float64);
  const Index tokens = v.size(0), width = v.size(1);

  const std::vector<Tensor> basis = span_of_columns(cat({v, ones({tokens, 1}, float64)}, 1));
  manual_seed(1);
  const Tensor random = randn({tokens}, float64), centered = random - mean(random);
  const Tensor seen = centered / norm(centered);  // sums to 0, but changes the output
  const Tensor free = outside(random, basis), delta = free / norm(free);
  const auto change = [&](const Tensor& d) { return max(abs(matmul(a + d, v) - matmul(a, v))); };
  const Tensor other = a + largest_step(a, delta) * delta;

  std::printf("L1H0 of an untrained model, %ld tokens, values of %ld\n\n", long(tokens),
              long(width));
  Predictions predictions;
  const double directions = double(tokens) - double(basis.size());
  predictions.expect("directions: T - rank [V, 1]", directions, double(tokens - width - 1),
                     double(tokens - width - 1));
  predictions.expect_at_most("largest change of the output, delta of norm 1", change(delta).item(),
                             1e-12);
  predictions.expect("the same for a random delta of norm 1 and sum 0", change(seen).item(), 1e-3);
  predictions.expect("other weights with the same output: smallest weight", min(other).item(),
                     -1e-15);
  predictions.expect_at_most("other weights: largest change of the output",
                             change(other - a).item(), 1e-12);
  predictions.expect("half of |other - a|_1: fraction of the attention that moved",
                     sum(abs(other - a)).item() / 2, 0.01);
  std::printf(
      "\nNotice: if there are more tokens than d_value, a picture of attention is one of many "
      "that\n"
      "give the same output. If a head attends to one token only, the other rows are close to it,\n"
      "because weights cannot be negative.\n");

  heed::plot::Series before{"a, as computed", {}, {}},
      after{"another row, the same output", {}, {}};
  for (Index i = 0; i < tokens; ++i) {
    before.x.push_back(double(i)), before.y.push_back(a.at({i}));
    after.x.push_back(double(i)), after.y.push_back(other.at({i}));
  }
  return predictions.finish(
      heed::plot::draw_chart({.title = "Two rows of attention with the same output",
                              .x_name = "key",
                              .y_name = "attention weight",
                              .series = {before, after}}),
      "gradient_null_space.png",
      "Attention weights over tokens: the computed row and another that gives "
      "the same output to rounding.");
}
