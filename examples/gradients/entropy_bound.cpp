// How sharp can attention be? By the size of its scores alone. Take the scores of a row over n
// keys, less their mean, of norm rho. Then its entropy is at least
//   ln(1 + (n - 1) b) + rho sqrt(n (n - 1)) b / (1 + (n - 1) b),   b = exp(-rho sqrt(n / (n - 1))),
// with equality where one score stands above n - 1 equal ones (Zhai et al. 2023, arXiv 2303.06296,
// in closed form). It falls exponentially with rho: who keeps the scores small keeps the entropy.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::nn;

namespace {

double bound(double n, double rho) {
  const double b = std::exp(-rho * std::sqrt(n / (n - 1)));
  return std::log1p((n - 1) * b) + rho * std::sqrt(n * (n - 1)) * b / (1 + (n - 1) * b);
}

struct Row {
  double entropy, bound;
};

Row measure(const std::vector<double>& scores) {
  const auto n = double(scores.size());
  const double highest = *std::max_element(scores.begin(), scores.end());
  double average = 0, squares = 0, z = 0, mean_score = 0;  // of score - highest
  for (const double s : scores) average += s / n, z += std::exp(s - highest);
  for (const double s : scores) {
    squares += (s - average) * (s - average);
    mean_score += std::exp(s - highest) / z * (s - highest);
  }
  return {std::log(z) - mean_score, bound(n, std::sqrt(squares))};
}

// The largest |entropy - bound| where they are equal.
double gap_at_equality() {
  double gap = 0;
  for (const int n : {2, 8, 32, 128})
    for (double rho = 0.25; rho <= 16; rho *= 2) {
      std::vector<double> scores(std::size_t(n), 0.0);
      scores[0] = rho * std::sqrt(n / (n - 1.0));
      const Row row = measure(scores);
      gap = std::max(gap, std::abs(row.entropy - row.bound));
    }
  return gap;
}

// The least entropy - bound of 20,000 rows of every size of score.
double margin_of_random_rows() {
  constexpr std::int64_t kRows = 20000;
  manual_seed(1);
  double margin = HUGE_VAL;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const double size = std::exp(-3 + 6 * double(i) / kRows);
    const Row row = measure((randn({2 + i % 47}, float64) * size).to_vector<double>());
    margin = std::min(margin, row.entropy - row.bound);
  }
  return margin;
}

struct Moment {
  Row layers[2] = {};        // means over sequences, heads and queries
  double margin = HUGE_VAL;  // least of all rows
};

Moment look(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  Probe probe;
  for (const std::int64_t layer : {0, 1}) probe.record(attention_site(layer, "hook_attn_scores"));
  model(batch.inputs, {.probe = &probe});
  Moment m;
  for (const std::int64_t layer : {0, 1}) {
    const Tensor scores = probe.value(attention_site(layer, "hook_attn_scores"));  // [B, H, T, T]
    const std::int64_t length = scores.size(-1), rows = scores.numel() / length;
    const std::vector<double> all = to(scores, float64).to_vector<double>();
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t query = i % length;
      if (query == 0) continue;  // sees itself alone
      const auto begin = all.begin() + i * length;
      const Row row = measure({begin, begin + query + 1});
      const double share = 1 / double(rows / length * (length - 1));
      m.layers[layer].entropy += share * row.entropy;
      m.layers[layer].bound += share * row.bound;
      m.margin = std::min(m.margin, row.entropy - row.bound);
    }
  }
  return m;
}

}  // namespace

int main() {
  Trainer run = induction_run(1);
  const Batch batch = run.task->evaluation(0, 8);
  std::vector<heed::plot::Series> curves{{"layer 0: entropy", {}, {}},
                                         {"layer 0: bound", {}, {}},
                                         {"layer 1: entropy", {}, {}},
                                         {"layer 1: bound", {}, {}}};
  std::printf("step   layer 0: entropy   bound    layer 1: entropy   bound\n");
  double margin = HUGE_VAL;
  for (std::int64_t step = 0; step <= 200; step += 20) {
    train_to(run, step);
    const Moment m = look(run.model, batch);
    margin = std::min(margin, m.margin);
    const double y[] = {m.layers[0].entropy, m.layers[0].bound, m.layers[1].entropy,
                        m.layers[1].bound};
    for (std::size_t i = 0; i < 4; ++i)
      curves[i].x.push_back(double(step)), curves[i].y.push_back(y[i]);
    std::printf("%4ld        %.4f        %.4f        %.4f        %.4f\n", long(step), y[0], y[1],
                y[2], y[3]);
  }
  std::printf("\n");
  Verdict verdict;
  verdict.expect("the bound for 32 keys, rho = 8", bound(32, 8), 0.0828035, 0.0828045);
  verdict.expect_at_most("equality: one score above equal ones", gap_at_equality(), 1e-13);
  verdict.expect("20,000 random rows: least entropy - bound", margin_of_random_rows(), -1e-13);
  verdict.expect("every row while training: least entropy - bound", margin, -1e-12);
  verdict.expect_at_most("layer 1: bound after training / before",
                         curves[3].y.back() / curves[3].y.front(), 0.5);
  std::printf(
      "\nNotice: the bound is what the scores allow, the entropy what the head made of it. Both\n"
      "fall as it learns; where the bound nears 0 a softmax may saturate and its gradient die.\n");
  return verdict.finish(
      heed::plot::draw_chart({.title = "Entropy of attention and its bound while training",
                              .x_name = "training step",
                              .y_name = "nats, mean over rows",
                              .series = curves}),
      "gradient_entropy_bound.png",
      "Mean entropy of attention and its lower bound over training steps, by "
      "layer: both fall, the entropy never below the bound.");
}
