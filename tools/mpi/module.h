// The part of MPI that heed needs, as a table of plain functions. Only the module libheed_mpi.so
// links MPI. heed loads the module if a launcher has started several processes.
#pragma once

#include <cstdint>

namespace heed {

/// Table of the functions of the module.
struct MpiTable {
  /// Version of this table. A module with another version is rejected.
  int version;
  /// Calls MPI_Init_thread and returns this process's rank and the number of ranks. All further
  /// calls must come from the same thread.
  void (*start)(int* rank, int* size);
  /// Sends `bytes` bytes to rank `peer` and waits until the same number of bytes has arrived from
  /// it. `peer` must make the matching call.
  void (*swap)(int peer, const void* mine, void* theirs, std::uint64_t bytes);
  /// Returns the number of ranks on this machine that pass the same `number`. All ranks must call
  /// this function.
  int (*on_machine_with)(std::uint64_t number);
  /// Calls MPI_Finalize, which waits for all ranks.
  void (*end)();
  /// Ends all ranks at once with this exit code (MPI_Abort).
  void (*abort)(int code);
  /// Returns the name and version of the MPI library, such as "Open MPI v4.1.4".
  const char* (*library)();
};

/// Version of MpiTable in this build.
constexpr int kMpiVersion = 1;
/// Name of the module's only symbol, a function of type MpiTableFn.
constexpr const char* kMpiSymbol = "heed_mpi_table";
/// Type of the function that returns the table.
using MpiTableFn = const MpiTable* (*)();

}  // namespace heed
