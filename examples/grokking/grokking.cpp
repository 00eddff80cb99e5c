// Grokking (Power et al. 2022): a model that adds two numbers modulo 59 first memorizes the sums
// that it trains on, and much later learns to add, but only if weights decay. README.md explains
// the experiment. `example_grokking 1 2 3` trains with these seeds, which takes about 10
// minutes; `--steps N` ends each run after N steps.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "examples/gradients/experiment.h"
#include "nn/lab.h"

using namespace heed::lab;

namespace {

constexpr Index kSteps = 2500, kEvery = 10, kShown = 250;

// Changes the preset modadd. The sums a + b and b + a are either both training sums or both
// held-out sums. A weight decay of 1 ends the plateau before step 2500. The learning rate falls to
// 0 in the last 250 steps.
RunConfig recipe(std::int64_t seed, double weight_decay) {
  RunConfig c = preset("modadd");
  c.task_parameters = {{"modulus", "59"}, {"train-share", "0.6"}, {"split", "unordered"}};
  c.batch = 1 << 16;  // Trainer reduces it to all training sums
  c.eval_batch = c.eval_train = c.batch, c.eval_every = kEvery;
  c.steps = kSteps, c.schedule = Decay::kWsd;
  c.lr = 1.5e-3, c.weight_decay = weight_decay, c.seed = seed;
  return c;
}

// Trains up to step `until`. Prints a line per 250 steps, and returns the history.
std::vector<MetricsRow> train(std::int64_t seed, double weight_decay, std::int64_t until) {
  Trainer run(recipe(seed, weight_decay));
  std::printf("seed %ld, weight decay %g\n step  training sums right  held-out sums right\n",
              long(seed), weight_decay);
  while (run.steps_done < until) {
    run.step();
    if (run.steps_done % kEvery != 0) continue;
    run.evaluate(false);
    const MetricsRow& row = run.history().back();
    if (row.step % kShown == 0)
      std::printf("%5ld  %19.3f  %19.3f\n", long(row.step), row.train_accuracy, row.eval_accuracy);
    std::fflush(stdout);
  }
  return run.history();
}

// Returns the first step with a training accuracy of at least 0.99, or -1.
Index memorized(const std::vector<MetricsRow>& history) {
  for (const MetricsRow& row : history)
    if (row.train_accuracy >= 0.99) return row.step;
  return -1;
}

// Returns the accuracy on held-out sums at a step, or NaN if the run did not reach it.
double held_out_at(const std::vector<MetricsRow>& history, Index step) {
  for (const MetricsRow& row : history)
    if (row.step == step) return row.eval_accuracy;
  return MetricsRow::kNone;
}

// Adds the accuracies of a run, one curve for the training sums and one for the held-out sums.
void add_curves(heed::plot::LineChart& chart, const std::vector<MetricsRow>& history, int dash) {
  heed::plot::Series train{.dash = dash, .color = 0}, held_out{.dash = dash, .color = 1};
  for (const MetricsRow& row : history) {
    if (std::isnan(row.eval_accuracy)) continue;
    train.x.push_back(double(row.step)), train.y.push_back(row.train_accuracy);
    held_out.x.push_back(double(row.step)), held_out.y.push_back(row.eval_accuracy);
  }
  chart.series.push_back(train);
  chart.series.push_back(held_out);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> seeds;
  Index until = kSteps;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
      until = std::atoll(argv[++i]);
    else
      seeds.push_back(std::atoll(argv[i]));
  }
  if (seeds.empty()) seeds = {1};
  heed::plot::ChartStack picture{
      .title = "Grokking: (a + b) mod 59, accuracy on the training sums and on held-out sums",
      .colors = {"training sums", "held-out sums"}};
  Predictions predictions;
  for (const double weight_decay : {1.0, 0.0}) {
    heed::plot::LineChart chart{
        .title = weight_decay > 0 ? "with weight decay 1" : "without weight decay",
        .x_name = "training step",
        .y_name = "accuracy",
        .hlines = {{"chance", 1.0 / 59}},
        .log_x = true,
        .ends = {0, 1},
        .height = 260};
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      const auto history = train(seeds[i], weight_decay, until);
      const std::string seed = "seed " + std::to_string(seeds[i]);
      if (weight_decay > 0) picture.dashes.push_back(seed);
      add_curves(chart, history, int(i));
      const Index s1 = memorized(history);
      predictions.expect(seed + ": s1, the first step with 0.99 of the training sums right",
                         double(s1), 1, 200);
      predictions.expect_at_most(seed + ": held-out sums right at step 5 s1",
                                 held_out_at(history, 5 * s1), 0.1);
      if (until < kSteps)
        std::printf("%s: stopped before step %ld, no prediction for the end\n", seed.c_str(),
                    long(kSteps));
      else if (weight_decay > 0)
        predictions.expect(seed + ": held-out sums right at step 2500",
                           held_out_at(history, kSteps), 0.95);
      else
        predictions.expect_at_most(seed + ": held-out sums right at step 2500",
                                   held_out_at(history, kSteps), 0.1);
      std::printf("\n");
    }
    picture.panels.push_back(chart);
  }
  return predictions.finish(
      heed::plot::draw_chart_stack(picture), "grokking.png",
      "Accuracies on training sums and on held-out sums over the training steps, with weight decay "
      "and without.");
}
