// Does the work of `heed train` in ten lines: trains a model in a run directory, saves its state
// and checkpoints, and evaluates it. If the program is killed, RunFolder::resume() continues the
// run with bit-identical results.
#include <cstdio>

#include "nn/lab/run/training_run.h"

using namespace heed::lab;

int main() {
  RunConfig config = preset("induction");
  config.steps = 100, config.save_every = 50;
  Trainer trainer(config);
  TrainingRun run(trainer, RunFolder::make_next(config.task));  // runs/induction-1, for example
  const TrainingResult result = run.run();
  std::printf("%s: loss %.4f, optimal loss %.4f, %zu checkpoints\n", run.folder().text().c_str(),
              result.all->loss, *result.all->optimal, run.folder().checkpoints().size());
}
