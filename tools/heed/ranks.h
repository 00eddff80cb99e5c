// Training by several processes that a launcher (mpirun, srun) has started. The messages of
// lab::RankSession are sent by MPI.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/lab/train/rank_session.h"
#include "nn/lab/train/trainer.h"
#include "tools/heed/report/out.h"

namespace heed {

/// Place of this process among those that a launcher has started.
struct Launcher {
  int rank = 0;  ///< number of this process, from 0 to size - 1
  int size = 1;  ///< number of processes; 1 without a launcher
};

/// Returns the values of OpenMPI's variables (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE), or of
/// PMI's variables (PMI_RANK, PMI_SIZE: MPICH, srun --mpi=pmi2). Throws UsageError if they are not
/// a valid rank and size.
Launcher launcher();

/// Loads libheed_mpi.so (tools/mpi/module.h) and connects to the other ranks. Returns null if no
/// launcher has started several processes. Call it at most once in a process. If `own_threads` is
/// set, this function also sets the number of threads: the cores that this process may use are
/// divided equally among all ranks on this machine that may use the same cores. Throws UsageError
/// if the module cannot be loaded, or if MPI and the launcher report different numbers of
/// processes. Throws ValueError unless the number of ranks is a power of two and at most `shards`.
/// `shards` is the number of shards of a batch, or 0 if this number is not known yet.
lab::RankSession* join_ranks(bool own_threads, Index shards = 0);

/// Calls ranks->run_as_root(). Does nothing if `ranks` is null.
void lead_ranks(lab::Trainer& trainer, lab::RankSession* ranks);

/// Calls ranks.run_as_worker(). Returns only the exit code, because only the
/// root rank prints.
Out work_as_rank(lab::RankSession& ranks, const std::function<lab::Trainer()>& make);

/// Leaves the group of ranks; call it before the process exits. Returns `code`. If the session has
/// ended, waits until all ranks have called leave_ranks(). Otherwise this rank has an error that
/// the other ranks do not have, and the function ends all other ranks.
int leave_ranks(int code);

/// Returns f(). If the command line is wrong, f() throws the same error on every rank. Then only
/// the root rank prints the error, and the launcher ends the worker ranks. A worker rank that is
/// still running three seconds later prints the error as well, because it may be the only rank that
/// has an error.
int as_rank(const std::function<int()>& f);

}  // namespace heed
