// Tests of Trainer: evaluations do not change the run, and the best step has a finite loss.

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using heed::testing::Folder;
namespace fs = std::filesystem;

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
    const auto interrupt = [&](Index, Index) {
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
