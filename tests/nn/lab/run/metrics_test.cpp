// Tests of metrics.csv. The file is complete at any moment, except that a kill may truncate the
// last line.
#include "autograd/base/files.h"
#include "nn/lab.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/run/training_run.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::lab;
using heed::autograd::read_file;
namespace fs = std::filesystem;

std::vector<MetricsRow> rows() {
  MetricsRow first(0), second(1);
  first.eval_loss = 2.5, first.eval_optimal = 1.0 / 3;
  first.train_loss = 1.5, first.train_accuracy = 0.25;
  second.loss = 2.25, second.lr = 1e-3, second.grad_norm = HUGE_VAL, second.clipped_norm = 1;
  return {first, second};
}

TEST_CASE("the text of metrics.csv") {
  CHECK(metrics_csv(rows()) ==
        "step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy,clipped_norm,train_loss,"
        "train_accuracy\n"
        "0,,,,2.5,0.33333333333333331,,,1.5,0.25\n"
        "1,2.25,0.001,inf,,,,1,,\n");
}

TEST_CASE("rows are written during training; a save rewrites the file; a resume continues it") {
  const heed::testing::Folder made;
  const RunFolder folder(made.path());
  RunConfig c = preset("reverse");
  c.model.attention.d_model = 16, c.model.context = 8, c.batch = 4, c.eval_batch = 8, c.steps = 6;
  c.eval_every = 3;
  // Compares the file after each step. Simulates a kill after step `last`.
  struct Watched : TrainingRun {
    using TrainingRun::TrainingRun;
    Index last = 0;
    void on_step(const MetricsRow& row) override {
      CHECK(read_file(folder().file(RunFolder::kMetrics).string()) ==
            metrics_csv(trainer().history()));
      if (row.step == last) throw std::runtime_error("killed");
    }
  };
  {
    Trainer t(c);
    Watched run(t, LockedFolder(made.path()));
    run.last = 5;
    CHECK_THROWS_AS(run.run(), std::runtime_error);
  }
  const fs::path file = folder.file(RunFolder::kMetrics);
  fs::resize_file(file, fs::file_size(file) - 5);  // the row of a step that was not saved
  Trainer t = folder.resume();
  CHECK(t.steps_done == 0);
  Watched(t, LockedFolder(made.path())).run();
  CHECK(read_file(file.string()) == metrics_csv(t.history()));
}

}  // namespace
