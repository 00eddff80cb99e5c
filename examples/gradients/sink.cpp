// An attention sink in miniature. A softmax has to look somewhere: a head with nothing to find
// looks at the first token (Xiao et al. 2023, arXiv 2309.17453). In `induction` it is known when
// there is something to find: from the moment the block comes back. Up to then layer 1 rests on
// the ^ in front of every sequence; then it lets go.
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::nn;

namespace {

constexpr std::int64_t kHeads = 2, kBefore = 15, kAfter = 23;  // tokens every block has around it

}  // namespace

int main() {
  Trainer run = induction_run(1);
  train_to(run, run.config().steps);
  const NoGrad guard;
  const Batch batch = long_blocks(256);
  Probe probe;
  probe.record(attention_site(1, "hook_pattern"));
  run.model(batch.inputs, {.probe = &probe});
  const Tensor on_first =
      select(probe.value(attention_site(1, "hook_pattern")), 3, 0);   // [B, H, T]
  const Tensor period = 47.0 - sum(to(batch.counted, float64), {1});  // repeats: P + 1 to 47. [B]

  // By time since the block came back: at 1 the model reads the first token that it has seen.
  std::vector<heed::plot::Series> curves{{"L1H0", {}, {}}, {"L1H1", {}, {}}};
  double nothing = 0, something = 0;  // means of both heads
  std::printf("weight of layer 1 on the first token\n\nsince   L1H0     L1H1\n");
  for (std::int64_t since = -kBefore; since <= kAfter; ++since) {
    const Tensor position = unsqueeze(unsqueeze(to(period + double(since), int64), 1), 2);
    const Tensor index = expand(position, {batch.inputs.size(0), kHeads, 1});
    const Tensor weight = mean(gather(on_first, 2, index), {0, 2});  // [H]
    for (std::int64_t h = 0; h < kHeads; ++h) {
      curves[std::size_t(h)].x.push_back(double(since));
      curves[std::size_t(h)].y.push_back(weight.at({h}));
      (since <= 0 ? nothing : something) +=
          weight.at({h}) / double(kHeads * (since <= 0 ? kBefore + 1 : kAfter));
    }
    std::printf("%4ld    %.4f   %.4f\n", long(since), weight.at({0}), weight.at({1}));
  }
  std::printf("\n");
  Verdict verdict;
  verdict.expect("mean weight on ^ with nothing to copy", nothing, 0.5);
  verdict.expect_at_most("mean weight on ^ with something to copy", something, 0.02);
  std::printf(
      "\nNotice: this weight is not about the ^, it is about there being nothing else. Take it\n"
      "away and it goes elsewhere; a --sink gives it a place of its own.\n");
  return verdict.finish(
      heed::plot::draw_chart(
          {.title = "Layer 1 rests on the first token until there is something to copy",
           .x_name = "tokens since the block came back",
           .y_name = "attention weight on ^",
           .series = curves}),
      "gradient_sink.png",
      "Weight of layer 1 on the first token by time since the block came back: high before, near 0 "
      "after.");
}
