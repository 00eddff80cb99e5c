// What `heed train` does, as a program of ten lines: a run on disk with its saves, evaluations,
// checkpoints and early ends. Run it again after a kill, with RunFolder::resume(), and it continues
// bit for bit.
#include <cstdio>

#include "nn/run/training_run.h"

using namespace heed::nn;

int main() {
  RunConfig config = preset("induction");
  config.steps = 100, config.save_every = 50;
  Trainer trainer(config);
  const auto folder = RunFolder::make_next(config.task);  // runs/induction-1, locked
  TrainingRun run(trainer, RunFolder(folder->folder()));
  const TrainingResult result = run.run();
  std::printf("%s: loss %.4f, best possible %.4f, %zu checkpoints\n", run.folder().text().c_str(),
              result.all->loss, *result.all->optimal, run.folder().checkpoints().size());
}
