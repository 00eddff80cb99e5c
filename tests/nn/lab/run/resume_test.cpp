// Tests that a run that was stopped and resumed, or extended, has the same bits as an uninterrupted
// run, for a table of configurations. Kills and signals are tested in tests/tools/heed.
#include "nn/lab.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/run/training_run.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using namespace heed::autograd::testing;
using heed::testing::Folder;

// Returns the configuration with other values of steps, eval_every and save_every.
RunConfig lengthened(RunConfig c, Index steps, Index eval_every, Index save_every) {
  c.steps = steps, c.eval_every = eval_every, c.save_every = save_every;
  return c;
}

TEST_CASE("the length and the checks of a run can change, but not its schedule") {
  Trainer t(tiny_run());
  const Schedule before = schedule(t.config());
  t.set(lengthened(t.config(), 24, 3, 4));
  CHECK((t.config().steps == 24 && t.config().eval_every == 3 && t.config().save_every == 4));
  for (Index step = 0; step < 24; ++step)
    CHECK(schedule(t.config()).lr_at(step) == before.lr_at(step));
  CHECK_THROWS_AS(t.set(lengthened(t.config(), 0, 3, 4)), ValueError);
  CHECK(t.config().steps == 24);
  t.set(lengthened(t.config(), 48, 3, 4));
  CHECK(schedule(t.config()).total_steps == 12);
  RunConfig constant = tiny_run();
  constant.schedule = Decay::kConstant;
  Trainer u(constant);
  u.set(lengthened(u.config(), 24, 3, 4));
  CHECK(u.config().schedule_steps == 0);  // a constant schedule does not use it
  constant = u.config(), constant.patience = 1;
  u.set(constant);
  CHECK(u.snapshot().config.patience == 1);
  constant.patience = -1;
  CHECK_THROWS_WITH(u.set(constant), Contains("`patience` needs a whole number, 0 to "));
}

TEST_CASE("settings that affect the bits of a run cannot be changed") {
  Trainer t(tiny_run());
  RunConfig other = t.config();
  other.lr = 0.5, other.seed = 2;
  CHECK_THROWS_WITH(t.set(other), Contains("cannot change 'lr = ") && Contains("to 'lr = 0.5'"));
  other = t.config();
  other.schedule_steps = 30;
  CHECK_THROWS_WITH(t.set(other), Contains("to 'schedule-steps = 30'"));
}

// A run of 12 steps that is saved after `stop` steps and resumed on `threads` threads. If `threads`
// is 0, the number of threads does not change.
struct Interrupted {
  const char* label;
  std::function<void(RunConfig&)> change = [](RunConfig&) {};
  Index stop = 5;
  int threads = 0;
  const char* task = "reverse";
  bool from = false;  // starts from weights, which are removed before the resume
};

using C = RunConfig;
const Interrupted kInterrupted[] = {
    {"in the middle"},
    {"before the first step", [](C&) {}, 0},
    {"at an evaluation", [](C&) {}, 6},
    {"on one thread", [](C&) {}, 5, 1},
    {"on three threads", [](C&) {}, 5, 3},
    {"a task of copies", [](C&) {}, 5, 0, "copy"},
    {"a task of counts", [](C&) {}, 5, 0, "markov"},
    {"a text", [](C& c) { c.task = "text", c.text = HEED_SOURCE_DIR "/README.md"; }},
    {"parts of a batch", [](C& c) { c.shards = 4; }},
    {"float64", [](C& c) { c.model.attention.dtype = float64; }},
    {"momentum", [](C& c) { c.optimizer = OptimizerKind::kSGD, c.momentum = 0.9; }},
    {"the end of a plateau", [](C& c) { c.schedule = Decay::kWsd, c.decay_steps = 4; }, 9},
    {"from weights", [](C&) {}, 5, 0, "reverse", true}};

TEST_CASE("a resumed run equals an uninterrupted one, bit for bit") {
  for (const Interrupted& r : kInterrupted) {
    CAPTURE(r.label);
    const Threads restored_at_the_end;
    RunConfig c = tiny_run(r.task);
    r.change(c);
    const Folder straight, folder, source;
    if (r.from) {
      RunFolder(source.path()).save(Trainer(c).snapshot());
      c.from = (source / RunFolder::kModel).string();
    }
    Trainer whole(c), first(c);
    run_to(whole, 12, 3);
    RunFolder(straight.path()).save(whole.snapshot());
    run_to(first, r.stop, 3);
    RunFolder(folder.path()).save(first.snapshot());
    if (r.from) std::filesystem::remove(c.from);
    if (r.threads > 0) heed::autograd::set_num_threads(r.threads);
    std::vector<std::string> warnings;
    Trainer second = Trainer::from(RunFolder(folder.path()).load("", &warnings));
    CHECK(warnings.empty());
    CHECK((second.steps_done == r.stop && second.config().from == c.from));
    run_to(second, 12, 3);
    RunFolder(folder.path()).save(second.snapshot());
    check_same_run(folder.path(), straight.path());
  }
}

TEST_CASE("a run that is extended twice equals a run that was started with the final length") {
  for (const Decay schedule : {Decay::kConstant, Decay::kCosine, Decay::kLinear, Decay::kWsd}) {
    CAPTURE(enum_name(schedule));
    const Folder straight, longer;
    RunConfig c = tiny_run();
    c.schedule = schedule, c.min_lr = 1e-4;
    Trainer first(c);
    run_to(first, 12, 5);
    RunFolder(longer.path()).save(first.snapshot());
    Snapshot last = first.snapshot();
    first.evaluate(false);  // the final evaluation, which the longer run does not perform
    last.last_evaluation = first.history().back(), last.finished = true;
    RunFolder(longer.path()).save(last);
    CHECK(bytes_of(longer / "metrics.csv") == metrics_csv(first.history()));
    for (const Index steps : {16, 20}) {
      Trainer next = RunFolder(longer.path()).resume();
      next.set(lengthened(next.config(), steps, 50, 0));
      run_to(next, steps, 5);
      RunFolder(longer.path()).save(next.snapshot());
    }
    c.steps = 20, c.schedule_steps = schedule == Decay::kConstant ? 0 : 12;
    Trainer whole(c);
    run_to(whole, 20, 5);
    RunFolder(straight.path()).save(whole.snapshot());
    check_same_run(longer.path(), straight.path());
  }
}

}  // namespace
