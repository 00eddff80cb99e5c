// heed as one of several processes that a launcher (mpirun, srun) started: MPI below
// nn::RankSession.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/train/rank_session.h"
#include "nn/train/trainer.h"
#include "tools/heed/report/report.h"

namespace heed {

struct Launcher {
  int rank = 0;  ///< 0 to size - 1
  int size = 1;  ///< processes; 1 where no launcher started this one
  int here = 1;  ///< of them on this machine, as far as the launcher says
};

/// What OpenMPI's variables say (OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_SIZE), or those of PMI
/// (PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS: MPICH, srun --mpi=pmi2). Exit 2 for numbers that are no
/// rank of a size.
Launcher launcher();

/// `environment` ("NAME=value") without what launchers put there: for a process that shall not take
/// itself for a rank.
std::vector<std::string> without_launcher(const std::vector<std::string>& environment);

/// Loads libheed_mpi.so (tools/mpi/module.h) and connects to the other ranks. Returns null if no
/// launcher started several processes. Call it once in a process. `own_threads`: the number of
/// threads becomes the number of cores that this process may use, divided among the ranks of this
/// machine that may use the same. UsageError without the module; ValueError if the number of ranks
/// is not a power of two, or more than the shards `accumulate` of the run (0: not known yet).
nn::RankSession* join_ranks(bool own_threads, std::int64_t accumulate = 0);

/// run_as_root() of the session, if there is one.
void lead_ranks(nn::Trainer& trainer, nn::RankSession* ranks);

/// run_as_worker() of the session. Returns a report of the exit code alone; the root prints.
Report work_as_rank(nn::RankSession& ranks, const std::function<nn::Trainer()>& make);

/// Call it before a process that may be a rank exits with `code`, which it returns. If the session
/// has ended it waits for all ranks; else this rank has an error that the others do not know, and
/// ends them.
int leave_ranks(int code);

/// Returns f(). If the command line is wrong at all ranks, the root prints the error and the
/// launcher ends the others. A worker that still lives three seconds later has an error of its own
/// and prints it.
int as_rank(const std::function<int()>& f);

}  // namespace heed
