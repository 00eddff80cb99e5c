// Tests of an early end by patience or target loss. A resumed run ends at the same
// step.
#include "nn/lab/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::lab;

RunConfig tiny() {
  RunConfig c = preset("reverse");
  c.model.attention.d_model = 16, c.model.context = 8, c.batch = 16, c.eval_batch = 16,
  c.steps = 60, c.eval_every = 2;
  return c;
}

// Takes steps and evaluates until the run ends early or has done all steps. Returns the number of
// steps done.
Index run(Trainer& t) {
  while (t.steps_done < t.config().steps && t.stop_reason().empty()) {
    t.step();
    if (t.steps_done % t.config().eval_every == 0) t.evaluate(false);
  }
  return t.steps_done;
}

TEST_CASE("a target loss ends the run at the evaluation that reaches it") {
  RunConfig c = tiny();
  Trainer plain(c);
  CHECK(run(plain) == 60);
  CHECK(plain.stop_reason().empty());
  const auto reached = [&](double MetricsRow::*value, double target) {
    for (const MetricsRow& row : plain.history())
      if (!std::isnan(row.eval_loss) && row.*value <= target) return row.step;
    return Index(0);
  };
  // Chooses a target that the evaluation loss and the loss of the batch first reach at different
  // steps.
  for (const MetricsRow& row : plain.history())
    if (row.step > 5 && row.step <= 30 && !std::isnan(row.eval_loss) &&
        reached(&MetricsRow::loss, row.eval_loss) != reached(&MetricsRow::eval_loss, row.eval_loss))
      c.target_loss = row.eval_loss;
  REQUIRE(c.target_loss > 0);
  Trainer by_loss(c);
  const Index expected = reached(&MetricsRow::eval_loss, c.target_loss);
  CHECK(run(by_loss) == expected);
  CHECK(expected > 5);
  CHECK(expected <= 30);
  CHECK_THAT(by_loss.stop_reason(), Contains("target-loss: the eval_loss "));
  CHECK(by_loss.history()[5].loss == plain.history()[5].loss);
}

TEST_CASE("patience counts the evaluations since the best one, also after a resume") {
  RunConfig c = tiny();
  c.lr = 3e-1, c.clip = 0, c.patience = 3;  // a learning rate at which the loss rises and falls
  Trainer straight(c);
  const Index end = run(straight);
  CHECK(end < 60);
  CHECK_THAT(straight.stop_reason(), Contains("patience: 3 evaluations without a loss below "));
  CHECK_THAT(straight.stop_reason(), Contains(", that of step "));
  double best = HUGE_VAL;
  Index at = 0;
  for (const MetricsRow& row : straight.history())
    if (row.eval_loss < best) best = row.eval_loss, at = row.step;
  CHECK(end == at + 3 * c.eval_every);

  const heed::testing::Folder folder;
  {
    Trainer cut(c);
    while (cut.steps_done < end - 2) {
      cut.step();
      if (cut.steps_done % c.eval_every == 0) cut.evaluate(false);
    }
    CHECK(cut.stop_reason().empty());
    RunFolder(folder.path()).save(cut.snapshot());
  }
  Trainer resumed = RunFolder(folder.path()).resume();
  CHECK(run(resumed) == end);
  CHECK(resumed.stop_reason() == straight.stop_reason());
  RunFolder(folder.path()).save(resumed.snapshot());
  Trainer ended = RunFolder(folder.path()).resume();
  CHECK(ended.stop_reason() == straight.stop_reason());
  RunConfig longer = ended.config();
  longer.patience = 0;
  ended.set(longer);
  CHECK(ended.stop_reason().empty());
  ended.step();
  RunFolder(folder.path()).save(ended.snapshot());
  CHECK(RunFolder(folder.path()).resume().steps_done == end + 1);
}

}  // namespace
