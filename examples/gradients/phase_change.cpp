// Lab: the gradient during a phase change. At first the model does not learn to copy the repeated
// block (the plateau). Then, within a few dozen steps, it learns this completely: layer 0 attends
// to the previous token, and layer 1 attends to the token that followed the earlier copy of the
// current token. Neither layer is useful without the other.
//
// On the plateau, the gradient of layer 1's query and key weights is much smaller than the gradient
// of its value weights. The gradient of the query and key weights grows when layer 0 begins to
// learn, long before the loss falls. It is largest when the loss falls fastest, and then decays.
//
// There is a plateau only if blocks have at least 12 tokens. By default, heed's blocks have 3 to 24
// tokens. Copying a token from two or three positions back is learned gradually, so the phase
// change is weaker.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::lab;

namespace {

constexpr Index kSteps = 300, kEvery = 20, kSequences = 32;

struct Measurement {
  Index step;
  double repeat_loss;
  double norm[2][3];  // [layer][i], norms of the gradients of W_Q, W_K and W_V
};

// Measures the repeat loss and the gradient norms at the current step.
Measurement measure(const Trainer& run, const Batch& batch) {
  Measurement m{.step = run.steps_done, .repeat_loss = repeat_loss(run.model, batch), .norm = {}};
  std::vector<Tensor> weights;
  for (const Block& block : run.model.blocks)
    weights.push_back(block.attn.weights.in_proj_weight);  // rows of W_Q, then of W_K, then of W_V
  const auto g = grad(cross_entropy(run.model(batch.inputs), batch.targets), weights);
  for (std::size_t layer = 0; layer < g.size(); ++layer) {
    const std::vector<Tensor> parts = chunk(g[layer], 3, 0);
    for (std::size_t i = 0; i < 3; ++i)
      m.norm[layer][i] = std::sqrt(sum(parts[i] * parts[i]).item());
  }
  return m;
}

// Trains a model and returns one measurement for every 20 steps.
std::vector<Measurement> train(std::int64_t seed, const std::string& periods) {
  Trainer run = induction_run(seed, periods);
  const Batch batch = run.task->evaluation(0, kSequences);  // the same batch for all measurements
  std::vector<Measurement> measurements;
  for (Index step = kEvery; step <= kSteps; step += kEvery) {
    train_to(run, step);
    measurements.push_back(measure(run, batch));
  }
  return measurements;
}

struct Change {
  double ratio;       // largest / smallest |dL/dW_Q| of layer 1, steps 40 to 300
  double peak_delay;  // steps from the steepest fall of the repeat loss to the largest |dL/dW_Q|
};

Change phase_change(const std::vector<Measurement>& measurements) {
  double least = HUGE_VAL, most = 0, fall = 0, peak_step = 0, fall_step = 0;
  for (std::size_t i = 1; i < measurements.size(); ++i) {
    const double q = measurements[i].norm[1][0], step = double(measurements[i].step);
    least = std::min(least, q);
    if (q > most) most = q, peak_step = step;
    const double fell = measurements[i - 1].repeat_loss - measurements[i].repeat_loss;
    if (fell > fall) fall = fell, fall_step = step - double(kEvery) / 2;
  }
  return {most / least, peak_step - fall_step};
}

heed::plot::Image draw(const std::vector<Measurement>& measurements) {
  std::vector<heed::plot::Series> curves{{"repeat loss (nats)", {}, {}}, {"W_Q, layer 1", {}, {}},
                                         {"W_K, layer 1", {}, {}},       {"W_V, layer 1", {}, {}},
                                         {"W_Q, layer 0", {}, {}},       {"W_V, layer 0", {}, {}}};
  for (const Measurement& m : measurements) {
    const double y[] = {m.repeat_loss, m.norm[1][0], m.norm[1][1],
                        m.norm[1][2],  m.norm[0][0], m.norm[0][2]};
    for (std::size_t i = 0; i < curves.size(); ++i) {
      curves[i].x.push_back(double(m.step));
      curves[i].y.push_back(y[i]);
    }
  }
  return heed::plot::draw_chart(
      {.title = "The gradient through the phase change of induction, seed 1",
       .x_name = "training step",
       .y_name = "repeat loss; norm of dL/dW",
       .series = curves,
       .log_y = true});
}

}  // namespace

int main() {
  std::vector<std::vector<Measurement>> runs;
  for (std::int64_t seed = 1; seed <= 3; ++seed) runs.push_back(train(seed, "12..24"));
  const Change short_blocks = phase_change(train(1, "3..24"));

  std::printf("seed 1: norms of dL/dW, by layer\n\n");
  std::printf("step   repeat loss   L0 Q      L0 K      L0 V      L1 Q      L1 K      L1 V\n");
  for (const Measurement& m : runs[0]) {
    std::printf("%4ld     %7.4f   ", long(m.step), m.repeat_loss);
    for (const auto& layer : m.norm)
      for (const double norm : layer) std::printf("  %.2e", norm);
    std::printf("\n");
  }
  std::printf("\n");
  Predictions predictions;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Change change = phase_change(runs[i]);
    const std::string seed = "seed " + std::to_string(i + 1) + ": ";
    predictions.expect(seed + "largest / smallest |dL/dW_Q| of layer 1, steps 40 to 300",
                       change.ratio, 50);
    predictions.expect(seed + "steps from the steepest fall to the largest |dL/dW_Q|",
                       change.peak_delay, -40, 40);
  }
  predictions.expect("blocks of 3 to 24: largest / smallest |dL/dW_Q|", short_blocks.ratio, 3, 30);
  predictions.expect("blocks of 3 to 24: steps to the largest |dL/dW_Q|", short_blocks.peak_delay,
                     -40, 40);
  std::printf(
      "\nNotice: the gradient of W_Q and W_K in layer 1 grows while the loss is still constant.\n"
      "The loss alone does not show that the phase change is near.\n");
  return predictions.finish(
      draw(runs[0]), "gradient_phase_change.png",
      "Repeat loss and gradient norms over training steps: the gradient of layer 1's queries and "
      "keys grows on the plateau, peaks as the loss falls, and decays.");
}
