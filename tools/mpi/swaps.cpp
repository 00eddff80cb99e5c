// Measures the time of an exchange between two ranks. Prints one line "bytes seconds" per message
// size. The time is the median of 21 blocks of exchanges. Start the program with `mpirun -n 2`;
// tools/ranks reads its output.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "tools/mpi/module.h"

extern "C" const heed::MpiTable* heed_mpi_table();

int main() {
  const heed::MpiTable* mpi = heed_mpi_table();
  int rank = 0, size = 0;
  mpi->start(&rank, &size);
  if (size != 2) {
    std::fputs("heed_swaps: needs 2 processes; start it with mpirun -n 2\n", stderr);
    mpi->end();
    return 2;
  }
  for (std::size_t bytes = 8; bytes <= (std::size_t(16) << 20); bytes *= 4) {
    std::vector<char> mine(bytes), theirs(bytes);
    const int swaps = bytes < 65536 ? 200 : 5;
    std::vector<double> seconds;
    for (int block = 0; block < 21; ++block) {
      const auto begun = std::chrono::steady_clock::now();
      for (int i = 0; i < swaps; ++i) mpi->swap(1 - rank, mine.data(), theirs.data(), bytes);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      seconds.push_back(took.count() / swaps);
    }
    std::nth_element(seconds.begin(), seconds.begin() + 10, seconds.end());
    if (rank == 0) std::printf("%zu %.9f\n", bytes, seconds[10]);
  }
  mpi->end();
}
