// The functions of tools/mpi/module.h, implemented with MPI. If an MPI call fails, MPI prints an
// error and ends all ranks.
#include "tools/mpi/module.h"

#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

void start(int* rank, int* size) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

void swap(int peer, const void* mine, void* theirs, std::uint64_t bytes) {
  constexpr std::uint64_t kMost = 1u << 30;  // bytes in a message; the counts of MPI are int
  for (std::uint64_t at = 0; at < bytes; at += kMost) {
    const int n = int(std::min(kMost, bytes - at));
    MPI_Sendrecv(static_cast<const char*>(mine) + at, n, MPI_BYTE, peer, 0,
                 static_cast<char*>(theirs) + at, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
}

int on_machine_with(std::uint64_t number) {
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  int ranks = 0;
  MPI_Comm_size(machine, &ranks);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(&number, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, machine);
  MPI_Comm_free(&machine);
  return int(std::count(all.begin(), all.end(), number));
}

void end() { MPI_Finalize(); }

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const char* library() {
  static const std::string text = [] {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    return std::string(version).substr(0, std::string(version).find_first_of("\n,"));
  }();
  return text.c_str();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const heed::MpiTable* heed_mpi_table() {
  static const heed::MpiTable table{heed::kMpiVersion, start,  swap, on_machine_with, end,
                                    abort_all,         library};
  return &table;
}
