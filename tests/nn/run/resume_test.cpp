// A run that is interrupted, or made longer, is the one that was not: bit for bit.
#include "autograd/kernels/simd/gemm_bf16.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"
#include "tests/support/simd_targets.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::testing::OnTarget;
using heed::testing::Folder;

// config with another length and intervals.
RunConfig lengthened(RunConfig c, std::int64_t steps, std::int64_t eval_every,
                     std::int64_t save_every) {
  c.steps = steps, c.eval_every = eval_every, c.save_every = save_every;
  return c;
}

TEST_CASE("the length of a run can change, but not its schedule") {
  Trainer t(tiny_run());
  const Schedule before = schedule(t.config());
  t.set(lengthened(t.config(), 24, 3, 4));
  CHECK((t.config().steps == 24 && t.config().eval_every == 3 && t.config().save_every == 4));
  for (std::int64_t step = 0; step < 24; ++step)
    CHECK(schedule(t.config()).lr_at(step) == before.lr_at(step));
  CHECK_THROWS_AS(t.set(lengthened(t.config(), 0, 3, 4)), ValueError);
  CHECK(t.config().steps == 24);
  t.set(lengthened(t.config(), 48, 3, 4));
  CHECK(schedule(t.config()).total_steps == 12);
  RunConfig constant = tiny_run();
  constant.schedule = Decay::kConstant;
  Trainer u(constant);
  u.set(lengthened(u.config(), 24, 3, 4));
  CHECK(u.config().schedule_steps == 0);  // nothing that another run would have to copy
}

TEST_CASE("what decides the bits of a run cannot change") {
  Trainer t(tiny_run());
  RunConfig other = t.config();
  other.lr = 0.5, other.seed = 2;
  CHECK_THROWS_WITH(t.set(other), Contains("cannot change 'lr = ") && Contains("to 'lr = 0.5'"));
  other = t.config();
  other.schedule_steps = 30;
  CHECK_THROWS_WITH(t.set(other), Contains("to 'schedule-steps = 30'"));
}

TEST_CASE("a run that is made longer is one that was started so") {
  Folder straight, longer;
  RunConfig c = tiny_run();
  c.steps = 20, c.schedule_steps = 12, c.min_lr = 1e-4;
  Trainer t(c);
  run_to(t, 20, 5);
  RunFolder(straight.path()).save(t.snapshot());
  c.steps = 12, c.schedule_steps = 0;
  Trainer first(c);
  run_to(first, 12, 5);
  RunFolder(longer.path()).save(first.snapshot());
  first.evaluate(false);  // of its end, which the longer run does not have
  RunFolder(longer.path()).save_results(first.snapshot());
  CHECK(bytes_of(longer / "metrics.csv").find("\n12,") != std::string::npos);
  Trainer second = RunFolder(longer.path()).resume();
  second.set(lengthened(second.config(), 20, 50, 0));
  run_to(second, 20, 5);
  RunFolder(longer.path()).save(second.snapshot());
  for (const char* file : {"model.safetensors", "best.safetensors", "state.safetensors",
                           "metrics.csv", "config.toml"}) {
    INFO(file);
    CHECK(bytes_of(longer / file) == bytes_of(straight / file));
  }
}

TEST_CASE("a resumed run is the straight one, bit for bit, at any number of threads") {
  const heed::autograd::testing::Threads restored_at_the_end;
  Folder straight;
  {
    Trainer t(tiny_run());
    run_to(t, 12, 3);
    RunFolder(straight.path()).save(t.snapshot());
  }
  for (const int n : {1, 2})
    for (const std::int64_t stop : {0, 5, 6}) {
      heed::autograd::set_num_threads(n);
      Folder folder;
      {
        Trainer t(tiny_run());
        run_to(t, stop, 3);
        RunFolder(folder.path()).save(t.snapshot());
      }
      std::vector<std::string> warnings;
      Trainer t = Trainer::from(RunFolder(folder.path()).load("", &warnings));
      CHECK(warnings.empty());
      CHECK(t.steps_done == stop);
      run_to(t, 12, 3);
      RunFolder(folder.path()).save(t.snapshot());
      for (const char* file : {"model.safetensors", "best.safetensors", "state.safetensors",
                               "metrics.csv", "config.toml"}) {
        INFO(file << ", " << n << " threads, stopped after " << stop);
        CHECK(bytes_of(folder / file) == bytes_of(straight / file));
      }
    }
}

TEST_CASE(
    "a run of bfloat16 products goes on with the same bits, or says that its way is another") {
  const heed::autograd::testing::Threads restored_at_the_end;
  RunConfig c = tiny_run();
  c.model.matmul = Precision::kBfloat16;
  Folder straight, folder;
  Trainer whole(c);
  run_to(whole, 12, 3);
  RunFolder(straight.path()).save(whole.snapshot());
  Trainer first(c);
  run_to(first, 5, 3);
  RunFolder(folder.path()).save(first.snapshot());
  heed::autograd::set_num_threads(3);
  {
    Trainer second = RunFolder(folder.path()).resume();
    CHECK(second.config().model.matmul == Precision::kBfloat16);
    run_to(second, 12, 3);
    RunFolder(folder.path()).save(second.snapshot());
  }
  for (const char* file : {"model.safetensors", "state.safetensors", "metrics.csv", "config.toml"})
    CHECK(bytes_of(folder / file) == bytes_of(straight / file));

  {
    const OnTarget other("scalar");
    std::vector<std::string> warnings;
    RunFolder(folder.path()).load("", &warnings);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Contains(kernels::bf16_ways()[0] + " in "));
    CHECK_THAT(warnings[0], Contains("is SCALAR, bfloat16 by portable now"));
  }
  // Its line lost, a config.toml would be that of float32: the weights say otherwise.
  std::string config = bytes_of(folder / "config.toml");
  const std::string line = "matmul = \"bfloat16\"\n";
  config.erase(config.find(line), line.size());
  write_file((folder / "config.toml").string(), std::string_view(config));
  CHECK_THROWS_WITH(RunFolder(folder.path()).resume(), Contains("was trained with 'matmul = "));
}

}  // namespace
