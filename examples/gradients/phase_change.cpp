// The gradient through a phase change. For a while the model learns nothing of the repeated block;
// then, within a few dozen steps, everything: layer 0 has learned to look one token back and layer
// 1 to look at what followed the same token last time, and neither is of use without the other.
//
// On the plateau the queries and keys of layer 1 get a small part of the gradient that its values
// get. As the first layer gets somewhere, the signal to them grows, long before the loss shows it,
// has its peak in the steepest fall, and decays.
//
// The plateau takes blocks of 12 tokens and more. heed's default has blocks of 3 to 24: repeats
// that are two or three tokens back are found by and by, and there is less of a phase change to
// see.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::nn;

namespace {

constexpr std::int64_t kSteps = 300, kEvery = 20, kSequences = 32;

struct Moment {
  std::int64_t step;
  double repeat_loss;
  double norm[2][3];  // of dL/dW_Q, dL/dW_K, dL/dW_V, by layer
};

Moment look(const Trainer& run, const Batch& batch) {
  Moment m{.step = run.steps_done, .repeat_loss = repeat_loss(run.model, batch), .norm = {}};
  std::vector<Tensor> weights;
  for (const Block& block : run.model.blocks) {
    const AttentionWeights& w = block.attn.weights;
    weights.insert(weights.end(), {w.q_proj_weight, w.k_proj_weight, w.v_proj_weight});
  }
  const auto g = grad(cross_entropy(run.model(batch.inputs), batch.targets), weights);
  for (std::size_t i = 0; i < g.size(); ++i)
    m.norm[i / 3][i % 3] = std::sqrt(sum(g[i] * g[i]).item());
  return m;
}

std::vector<Moment> train(std::int64_t seed, const std::string& periods) {
  Trainer run = induction_run(seed, periods);
  const Batch batch = run.task->evaluation(0, kSequences);  // one for all moments
  std::vector<Moment> moments;
  for (std::int64_t step = kEvery; step <= kSteps; step += kEvery) {
    train_to(run, step);
    moments.push_back(look(run, batch));
  }
  return moments;
}

struct Change {
  double ratio;       // largest / least |dL/dW_Q| of layer 1 from step 40 on
  double peak_delay;  // steps from the steepest fall of the repeat loss to the largest
};

Change phase_change(const std::vector<Moment>& moments) {
  double least = HUGE_VAL, most = 0, fall = 0, peak_step = 0, fall_step = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const double q = moments[i].norm[1][0], step = double(moments[i].step);
    least = std::min(least, q);
    if (q > most) most = q, peak_step = step;
    const double fell = moments[i - 1].repeat_loss - moments[i].repeat_loss;
    if (fell > fall) fall = fell, fall_step = step - double(kEvery) / 2;
  }
  return {most / least, peak_step - fall_step};
}

heed::plot::Image draw(const std::vector<Moment>& moments) {
  std::vector<heed::plot::Series> curves{{"repeat loss (nats)", {}, {}}, {"W_Q, layer 1", {}, {}},
                                         {"W_K, layer 1", {}, {}},       {"W_V, layer 1", {}, {}},
                                         {"W_Q, layer 0", {}, {}},       {"W_V, layer 0", {}, {}}};
  for (const Moment& m : moments) {
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
  std::vector<std::vector<Moment>> runs;
  for (std::int64_t seed = 1; seed <= 3; ++seed) runs.push_back(train(seed, "12..24"));
  const Change short_blocks = phase_change(train(1, "3..24"));

  std::printf("seed 1: norms of dL/dW, by layer\n\n");
  std::printf("step   repeat loss   L0 Q      L0 K      L0 V      L1 Q      L1 K      L1 V\n");
  for (const Moment& m : runs[0]) {
    std::printf("%4ld     %7.4f   ", long(m.step), m.repeat_loss);
    for (const auto& layer : m.norm)
      for (const double norm : layer) std::printf("  %.2e", norm);
    std::printf("\n");
  }
  std::printf("\n");
  Verdict verdict;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Change change = phase_change(runs[i]);
    const std::string seed = "seed " + std::to_string(i + 1) + ": ";
    verdict.expect(seed + "largest / least |dL/dW_Q| of layer 1, steps 40 to 300", change.ratio,
                   50);
    verdict.expect(seed + "steps from the steepest fall to the largest", change.peak_delay, -40,
                   40);
  }
  verdict.expect("blocks of 3 to 24: largest / least", short_blocks.ratio, 3, 30);
  verdict.expect("blocks of 3 to 24: steps to the largest", short_blocks.peak_delay, -40, 40);
  std::printf(
      "\nNotice: the gradient of W_Q and W_K in layer 1 grows while the loss seems to stand "
      "still;\n"
      "who watches the loss alone sees nothing coming.\n");
  return verdict.finish(
      draw(runs[0]), "gradient_phase_change.png",
      "Repeat loss and gradient norms over training steps: the gradient of layer 1's queries and "
      "keys grows on the plateau, peaks as the loss falls, and decays.");
}
