// Lab: the size of the scores limits how sharp attention can be. Let rho be the norm of the scores
// of one query and n keys, after their mean is subtracted. Then the entropy of the attention
// weights is at least
//   ln(1 + (n - 1) b) + rho sqrt(n (n - 1)) b / (1 + (n - 1) b),   b = exp(-rho sqrt(n / (n - 1))),
// (the closed form of Zhai et al. 2023, arXiv 2303.06296). Entropy and bound are equal if n - 1
// scores are equal and the remaining score is higher. The bound falls exponentially with rho, so
// the entropy is high if the scores are small.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::lab;

namespace {

// Returns the lower bound of the entropy.
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
  // mean_score is the mean of (score - highest), weighted by the attention weights.
  double average = 0, squares = 0, z = 0, mean_score = 0;
  for (const double s : scores) average += s / n, z += std::exp(s - highest);
  for (const double s : scores) {
    squares += (s - average) * (s - average);
    mean_score += std::exp(s - highest) / z * (s - highest);
  }
  return {std::log(z) - mean_score, bound(n, std::sqrt(squares))};
}

// Returns the largest |entropy - bound| for scores at which entropy and bound should be equal.
double gap_at_equality() {
  double gap = 0;
  for (const int n : {2, 8, 32, 128})
    for (const double rho : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0}) {
      std::vector<double> scores(std::size_t(n), 0.0);
      scores[0] = rho * std::sqrt(n / (n - 1.0));
      const Row row = measure(scores);
      gap = std::max(gap, std::abs(row.entropy - row.bound));
    }
  return gap;
}

// Returns the smallest value of entropy - bound among 20,000 random rows of scores.
double margin_of_random_rows() {
  constexpr Index kRows = 20000;
  manual_seed(1);
  double margin = HUGE_VAL;
  for (Index i = 0; i < kRows; ++i) {
    const double size = std::exp(-3 + 6 * double(i) / kRows);
    const Row row = measure((randn({2 + i % 47}, float64) * size).to_vector<double>());
    margin = std::min(margin, row.entropy - row.bound);
  }
  return margin;
}

struct Measurement {
  Row layers[2] = {};        // means over sequences, heads and queries
  double margin = HUGE_VAL;  // smallest value of entropy - bound
};

// Measures the entropy and its bound in both layers at the current weights.
Measurement measure_model(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  Probe probe;
  for (const Index layer : {0, 1}) probe.record(attention_site(layer, "hook_attn_scores"));
  model(batch.inputs, {.probe = &probe});
  Measurement m;
  for (const Index layer : {0, 1}) {
    const Tensor scores = probe.value(attention_site(layer, "hook_attn_scores"));  // [B, H, T, T]
    const Index length = scores.size(-1), rows = scores.numel() / length;
    const std::vector<double> all = to(scores, float64).to_vector<double>();
    for (Index i = 0; i < rows; ++i) {
      const Index query = i % length;
      if (query == 0) continue;  // query 0 can attend only to itself
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
  for (Index step = 0; step <= 200; step += 20) {
    train_to(run, step);
    const Measurement m = measure_model(run.model, batch);
    margin = std::min(margin, m.margin);
    const double y[] = {m.layers[0].entropy, m.layers[0].bound, m.layers[1].entropy,
                        m.layers[1].bound};
    for (std::size_t i = 0; i < 4; ++i)
      curves[i].x.push_back(double(step)), curves[i].y.push_back(y[i]);
    std::printf("%4ld        %.4f        %.4f        %.4f        %.4f\n", long(step), y[0], y[1],
                y[2], y[3]);
  }
  std::printf("\n");
  Predictions predictions;
  predictions.expect("the bound for 32 keys, rho = 8", bound(32, 8), 0.0828035, 0.0828045);
  predictions.expect_at_most("equality for one score above equal scores", gap_at_equality(), 1e-13);
  predictions.expect("20,000 random rows: smallest entropy - bound", margin_of_random_rows(),
                     -1e-13);
  predictions.expect("all rows during training: smallest entropy - bound", margin, -1e-12);
  predictions.expect_at_most("layer 1: bound after training / before",
                             curves[3].y.back() / curves[3].y.front(), 0.5);
  std::printf(
      "\nNotice: the entropy cannot be below the bound, which depends on the scores' norm only.\n"
      "Both fall during training. If the bound is near 0, a softmax can saturate and its gradient\n"
      "can vanish.\n");
  return predictions.finish(
      heed::plot::draw_chart({.title = "Entropy of attention and its lower bound during training",
                              .x_name = "training step",
                              .y_name = "nats, mean over rows",
                              .series = curves}),
      "gradient_entropy_bound.png",
      "Mean entropy of attention and its lower bound over training steps, by "
      "layer: both fall, the entropy never below the bound.");
}
