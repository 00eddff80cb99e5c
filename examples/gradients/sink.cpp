// Lab: an attention sink in a small model. The weights of a softmax add up to 1, so a head that has
// nothing to attend to attends to the first token (Xiao et al. 2023, arXiv 2309.17453). In
// `induction`, a token can be copied only after the block starts to repeat. Before that, layer 1
// attends to the token ^ (BOS) at the start of every sequence. After the repeat has started, it
// does not.
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::nn;

namespace {

constexpr std::int64_t kHeads = 2;
// Every sequence has at least this many positions before and after the start of the repeat.
constexpr std::int64_t kBefore = 15, kAfter = 23;

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
      select(probe.value(attention_site(1, "hook_pattern")), 3, 0);  // [B, H, T]
  // Block lengths P [B]. Positions P + 1 to 47 count: their targets are predictable repeats.
  const Tensor period = 47.0 - sum(to(batch.counted, float64), {1});

  // `since` is the number of tokens since the block started to repeat. If it is 1, the model reads
  // the first repeated token.
  std::vector<heed::plot::Series> curves{{"L1H0", {}, {}}, {"L1H1", {}, {}}};
  // Mean weights on the first token over both heads, before the repeat (there is nothing to copy)
  // and after it has started (there is something to copy).
  double nothing = 0, something = 0;
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
  Predictions predictions;
  predictions.expect("mean weight on ^ with nothing to copy", nothing, 0.5);
  predictions.expect_at_most("mean weight on ^ with something to copy", something, 0.02);
  std::printf(
      "\nNotice: the weight is on ^ only because there is nothing to copy. Without ^ it moves to\n"
      "another token. The option --sink adds an extra softmax term for it.\n");
  return predictions.finish(
      heed::plot::draw_chart(
          {.title = "Layer 1 attends to the first token until there is something to copy",
           .x_name = "tokens since the block started to repeat",
           .y_name = "attention weight on ^",
           .series = curves}),
      "gradient_sink.png",
      "Weight of layer 1 on the first token over time since the block started to repeat: high "
      "before, near 0 "
      "after.");
}
