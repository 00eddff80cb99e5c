// Tests of Trainer: it learns; evaluations do not change the run; results have the same bits at any
// number of threads.

#include "nn/lab.h"
#include "nn/run/metrics_file.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::testing::Folder;
namespace fs = std::filesystem;

TEST_CASE("a tiny model memorizes one batch") {
  RunConfig c = tiny_run();
  c.model.attention.d_model = 32, c.model.attention.dropout = 0, c.lr = 1e-2,
  c.schedule = Decay::kConstant, c.batch = 4, c.steps = 400;
  Trainer t(c);
  Generator g(3);
  const Batch batch = t.task->sample(c.batch, g);
  double loss = t.step(&batch).loss;
  CHECK(loss == Approx(std::log(16.0)).margin(0.5));  // about the loss of guessing
  while (!(loss < 1e-3) && t.steps_done < c.steps) loss = t.step(&batch).loss;
  INFO("after " << t.steps_done << " steps");
  // The four sequences of the task reverse have different beginnings, and only their answers are
  // targets. The optimal loss is therefore 0.
  CHECK(loss < 1e-3);
}

TEST_CASE("training has the same bits at 1, 2, 3 and 8 threads") {
  RunConfig c;  // induction, which is large enough that every op uses several threads
  c.model.mlp = c.model.attention.bias = true;
  c.model.attention.dropout = 0.1;
  c.batch = 48, c.steps = kSanitized ? 1 : 3, c.eval_batch = 16;
  c.shards = GENERATE(1, 4);  // in 4 shards, threads compute whole shards
  const auto trained = [&] {
    Trainer t(c);
    run_to(t, c.steps, 2);
    std::vector<std::vector<float>> weights;
    for (const auto& p : heed::nn::parameters(t.model))
      weights.push_back(p.tensor.to_vector<float>());
    return std::pair(metrics_csv(t.history()), weights);
  };
  const heed::autograd::testing::Threads restore_at_end;
  heed::autograd::set_num_threads(1);
  const auto [log, weights] = trained();
  for (const int n : {2, 3, 8}) {
    heed::autograd::set_num_threads(n);
    const auto [same_log, same_weights] = trained();
    INFO(n << " threads");
    CHECK(same_log == log);
    CHECK(same_weights == weights);
  }
}

TEST_CASE("evaluating more often changes no weight") {
  Trainer never(tiny_run()), often(tiny_run());
  run_to(never, 6, 0);
  run_to(often, 6, 1);
  CHECK(hash_of(never.snapshot()) == hash_of(often.snapshot()));
}

TEST_CASE("evaluating training sequences changes no weight, and the history has their loss") {
  RunConfig with = tiny_run("modadd"), without = with;
  with.model.context = without.model.context = 3;
  with.eval_train = 100, without.eval_train = 0;
  Trainer a(with), b(without);
  run_to(a, 6, 2);
  run_to(b, 6, 2);
  CHECK(hash_of(a.snapshot()) == hash_of(b.snapshot()));
  for (const MetricsRow& row : b.history()) CHECK(std::isnan(row.train_loss));
  for (const MetricsRow& row : a.history()) {
    CHECK(std::isnan(row.train_loss) == std::isnan(row.eval_loss));
    CHECK(std::isnan(row.train_accuracy) == std::isnan(row.eval_accuracy));
  }
  // A task that draws its evaluation set from the same sequences as training has no such values.
  Trainer drawn(tiny_run());
  drawn.evaluate(false);
  CHECK(std::isnan(drawn.history().back().train_loss));
}

TEST_CASE("an evaluation that is interrupted leaves no trace") {
  RunConfig c = tiny_run("modadd");
  c.model.context = 3;
  for (const int calls : {0, 1, 2}) {  // calls of the callback before it throws
    Trainer t(c);
    run_to(t, 2, 0);
    int left = calls;
    const auto interrupt = [&](std::int64_t, std::int64_t) {
      if (left-- == 0) throw ValueError("stop");
    };
    CHECK_THROWS_AS(t.evaluate(false, interrupt), ValueError);
    CHECK(!t.evaluated());
    CHECK(!t.snapshot().best_loss);
    t.evaluate(false);
    CHECK(std::isfinite(t.history().back().train_loss));
  }
}

TEST_CASE("a loss that is not finite is never the best") {
  Folder folder;
  Trainer t(tiny_run());
  const Tensor weight = parameters(t.model)[0].tensor;
  const Tensor kept = to(weight.detach() * 1.0, weight.dtype());
  const auto set = [&](const Tensor& x) {
    const NoGrad guard;
    copy_(weight, x);
  };
  set(full(weight.shape(), std::nan(""), weight.dtype()));
  CHECK(!std::isfinite(t.evaluate(false).loss));
  CHECK_THROWS_WITH(RunFolder(folder.path()).save(t.snapshot()),
                    Contains("tok.weight is not finite after step 0"));
  CHECK_THROWS_AS(RunFolder(folder.path()).save(t.snapshot()), NumericError);
  CHECK(fs::is_empty(folder.path()));
  set(kept);
  t.step();
  CHECK(std::isfinite(t.evaluate(false).loss));
  RunFolder(folder.path()).save(t.snapshot());
  CHECK(load_safetensors((folder / "best.safetensors").string()).metadata.at("step") == "1");
}

}  // namespace
