// Whether a launcher (mpirun, srun) started this process, as one of several.
#pragma once

#include <string>
#include <vector>

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

}  // namespace heed
