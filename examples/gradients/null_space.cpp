// Attention weights are not identifiable: other weights give the same output (Brunner et al. 2020,
// arXiv 1908.04211). A row a of attention over T tokens acts by a V alone, V [T, d_value]. A change
// delta with delta V = 0 and delta 1 = 0 is not seen by anything behind the head, and there are
// T - rank [V, 1] >= T - d_value - 1 directions of it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autograd/ops/ops.h"
#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::nn;

namespace {

double norm(const Tensor& x) { return std::sqrt(sum(x * x).item()); }

// x without its part in the span of the orthonormal `basis`; twice, for what rounding left.
Tensor outside(Tensor x, const std::vector<Tensor>& basis) {
  for (int twice = 0; twice < 2; ++twice)
    for (const Tensor& b : basis) x = x - b * sum(x * b);
  return x;
}

// An orthonormal basis of the span of the columns of m [T, n] (Gram-Schmidt): as many as its rank.
std::vector<Tensor> span_of_columns(const Tensor& m) {
  std::vector<Tensor> basis;
  for (std::int64_t i = 0; i < m.size(1); ++i) {
    const Tensor column = select(m, 1, i), rest = outside(column, basis);
    if (norm(rest) > 1e-9 * norm(column)) basis.push_back(rest / norm(rest));
  }
  return basis;
}

// The largest step for which a + step * delta is a distribution.
double largest_step(const Tensor& a, const Tensor& delta) {
  double step = HUGE_VAL;
  for (std::int64_t i = 0; i < a.size(0); ++i)
    if (delta.at({i}) < 0) step = std::min(step, -a.at({i}) / delta.at({i}));
  return step;
}

}  // namespace

int main() {
  const NoGrad guard;
  const Trainer run = induction_run(1);  // as it is drawn
  Probe probe;
  probe.record(attention_site(1, "hook_pattern")).record(attention_site(1, "hook_v"));
  run.model(long_blocks(1).inputs, {.probe = &probe});
  // L1H0: what the last token sees, and the values [T, d_value].
  const Tensor pattern = probe.value(attention_site(1, "hook_pattern"));  // [1, H, T, T]
  const Tensor a = to(select(select(select(pattern, 0, 0), 0, 0), 0, -1), float64);
  const Tensor v =
      to(select(select(probe.value(attention_site(1, "hook_v")), 0, 0), 1, 0), float64);
  const std::int64_t tokens = v.size(0), width = v.size(1);

  const std::vector<Tensor> basis = span_of_columns(cat({v, ones({tokens, 1}, float64)}, 1));
  manual_seed(1);
  const Tensor random = randn({tokens}, float64), centered = random - mean(random);
  const Tensor seen = centered / norm(centered);  // sums to 0, but does not spare the values
  const Tensor free = outside(random, basis), delta = free / norm(free);
  const auto change = [&](const Tensor& d) { return max(abs(matmul(a + d, v) - matmul(a, v))); };
  const Tensor other = a + largest_step(a, delta) * delta;

  std::printf("L1H0 of an untrained model, %ld tokens, values of %ld\n\n", long(tokens),
              long(width));
  Verdict verdict;
  const double directions = double(tokens) - double(basis.size());
  verdict.expect("directions: T - rank [V, 1]", directions, double(tokens - width - 1),
                 double(tokens - width - 1));
  verdict.expect_at_most("largest change of the output, delta of norm 1", change(delta).item(),
                         1e-12);
  verdict.expect("the same for another delta of norm 1 and sum 0", change(seen).item(), 1e-3);
  verdict.expect("other weights >= 0, the same output: least weight", min(other).item(), -1e-15);
  verdict.expect_at_most("their change of the output", change(other - a).item(), 1e-12);
  verdict.expect("half of |other - a|_1: share of the attention that moved",
                 sum(abs(other - a)).item() / 2, 0.01);
  std::printf(
      "\nNotice: with more tokens than a head's values have numbers, a picture of attention is "
      "one\n"
      "of many that explain the same output. A head that looks at one token only leaves little\n"
      "room: its other weights cannot fall below 0.\n");

  heed::plot::Series before{"a, as computed", {}, {}},
      after{"another row, the same output", {}, {}};
  for (std::int64_t i = 0; i < tokens; ++i) {
    before.x.push_back(double(i)), before.y.push_back(a.at({i}));
    after.x.push_back(double(i)), after.y.push_back(other.at({i}));
  }
  return verdict.finish(
      heed::plot::draw_chart({.title = "Two rows of attention with the same output",
                              .x_name = "token looked at",
                              .y_name = "attention weight",
                              .series = {before, after}}),
      "gradient_null_space.png",
      "Attention weights over tokens: the computed row and another that gives "
      "the same output to rounding.");
}
