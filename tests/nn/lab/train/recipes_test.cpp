// Tests that the presets used by `heed train TASK` reach their targets, and that the attention of
// the trained models is the expected one.
#include "tests/support/recipes.h"

#include <cmath>
#include <filesystem>
#include <iostream>

#include "nn/lab/study/roles.h"
#include "nn/lab/study/study.h"
#include "tests/support/files.h"

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

namespace {

// Returns the attention weight of a one-layer, one-head model at key `column(query)`, as a mean
// over all queries that have a target.
template <class F>
double mean_attention(const Trainer& trainer, F column) {
  const Batch batch = trainer.task->evaluation(0, 64);
  Probe probe;
  probe.record("blocks.0.attn.hook_pattern");
  const NoGrad guard;
  trainer.model.forward(batch.inputs, {.probe = &probe});
  const Tensor pattern = probe.value("blocks.0.attn.hook_pattern");  // [B, 1, T, T]
  double total = 0;
  int count = 0;
  for (Index b = 0; b < 64; ++b)
    for (Index t = 0; t < batch.targets.size(1); ++t) {
      if (batch.targets.at({b, t}) < 0) continue;
      total += pattern.at({b, 0, t, column(t)});
      ++count;
    }
  return total / count;
}

}  // namespace

// Checks the induction circuit (nn/lab/tasks/README.md): a head of layer 0 attends to the previous
// token, and a head of layer 1 attends to the token that followed the previous occurrence of the
// current token.
void check_circuit(const Trained& t) {
  const DonorSample sample = with_donors(t.trainer.task->evaluation(0, 16));
  const BaseRun run(t.trainer.model, sample.batch, {Objective::kLogLikelihood});
  const auto heads = roles_of_heads(
      run, study_components(run, sample.donors, kSmallestEffect, false), nullptr, false);
  const auto best = [&](Index layer, Pattern::Kind kind) {
    double most = 0;
    for (const HeadRole& head : heads)
      for (const auto& [pattern, score] : head.scores)
        if (head.head.layer == layer && pattern.kind == kind) most = std::max(most, score);
    return most;
  };
  const double previous = best(0, Pattern::kPrevious), induction = best(1, Pattern::kInduction);
  std::cout << "  layer 0 previous token " << previous << ", layer 1 induction " << induction
            << std::endl;
  CHECK(previous >= 0.4);
  CHECK(induction >= 0.85);
  // This is the quantity of `heed study --of diff:c-d`: the logit of c minus the logit of d.
  const Vocabulary& spelling = t.trainer.task->info().vocabulary;
  const Index c = spelling.encode("c")[0], d = spelling.encode("d")[0];
  const auto difference = [&](const std::string& prompt) {
    const Batch one = t.trainer.task->prompt(prompt);
    return study(t.trainer.model, one,
                 {.kind = Objective::kDifference,
                  .a = c,
                  .b = d,
                  .positions = {one.inputs.size(1) - 1}})
        .value;
  };
  CHECK(difference("abcdefghijklab") > 2);
  CHECK(difference("abdcefghijklab") < -2);
}

TEST_CASE("induction is learned for seeds 1 to 5, never better than Bayes") {
  for (const std::int64_t seed : seeds_to(5)) {
    const Trained t = trained(seeded("induction", seed));
    CHECK(*t.result.accuracy >= 0.99);
    CHECK(gap(t.result) <= 0.2);
    check_circuit(t);
  }
}

TEST_CASE("reverse and copy reach 100 % and attend on their diagonal") {
  // With N = 16, query N + i predicts the token at position N - 1 - i (reverse) or at position i
  // (copy).
  const auto mirror = [](Index row) { return 31 - row; };
  const auto same = [](Index row) { return row - 16; };
  for (const std::int64_t seed : seeds_to(3)) {
    const Trained reversed = trained(seeded("reverse", seed)),
                  copied = trained(seeded("copy", seed));
    CHECK(*reversed.result.accuracy == 1);
    CHECK(*copied.result.accuracy == 1);
    const double anti = mean_attention(reversed.trainer, mirror),
                 diagonal = mean_attention(copied.trainer, same);
    std::cout << "mean attention on the anti-diagonal " << anti << ", on the diagonal " << diagonal
              << std::endl;
    CHECK(anti >= 0.95);
    CHECK(diagonal >= 0.95);
  }
}

TEST_CASE("tiny shakespeare, nanoGPT's CPU recipe", "[.][shakespeare]") {
  const std::string path = heed::testing::text_corpus("tinyshakespeare.txt").string();
  if (skips(!std::filesystem::exists(path), "no " + path + "; name its folder in HEED_TEST_DATA"))
    return;
  RunConfig config = preset("shakespeare-cpu");
  config.text = path;
  Trainer first(config);
  CHECK(first.step().loss == Approx(std::log(65.0)).margin(0.05));
  const Trained t = trained(config);
  CHECK(t.result.loss >= 1.84);
  CHECK(t.result.loss <= 1.94);
}
