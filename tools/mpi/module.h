// What heed needs of MPI, as a table of plain functions: the module libheed_mpi.so, which alone
// links MPI, has it, and heed loads that when a launcher has started it as one of several.
#pragma once

#include <cstdint>

namespace heed {

struct MpiTable {
  /// Of this table: a module of another version is not used.
  int version;
  /// MPI_Init; all calls come from the thread that calls this one.
  void (*start)(int* rank, int* size);
  /// Sends `bytes` bytes to rank `peer` and waits for as many of its.
  void (*swap)(int peer, const void* mine, void* theirs, std::uint64_t bytes);
  /// Of all ranks on this machine, how many came with the same number. All call it.
  int (*on_machine_with)(std::uint64_t number);
  /// MPI_Finalize, which waits for all ranks.
  void (*end)();
  /// Ends all ranks at once.
  void (*abort)(int code);
  /// "Open MPI v4.1.4, ...": one line.
  const char* (*library)();
};

constexpr int kMpiVersion = 1;
/// The module's only symbol, of type MpiTableFn.
constexpr const char* kMpiSymbol = "heed_mpi_table";
using MpiTableFn = const MpiTable* (*)();

}  // namespace heed
