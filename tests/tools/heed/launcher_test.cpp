// Tests of launcher(), which reads the environment variables that launchers such as mpirun set.
#include "tests/support/catch.h"
#include "tools/heed/ranks.h"

namespace {

using heed::Launcher;

Launcher with(const char* rank_name, const char* rank, const char* size_name, const char* size) {
  ::setenv(rank_name, rank, 1), ::setenv(size_name, size, 1);
  struct Clear {
    const char *a, *b;
    ~Clear() { ::unsetenv(a), ::unsetenv(b); }
  } const clear{rank_name, size_name};
  return heed::launcher();
}

TEST_CASE("launcher() reads rank and size; without the variables there is one process") {
  CHECK(heed::launcher().rank == 0);
  CHECK(heed::launcher().size == 1);
  const Launcher open = with("OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4");
  CHECK(open.rank == 2);
  CHECK(open.size == 4);
  CHECK(with("PMI_RANK", "1", "PMI_SIZE", "3").rank == 1);
  for (const char* rank : {"4", "-1", "x", ""})
    CHECK_THROWS_WITH(with("PMI_RANK", rank, "PMI_SIZE", "4"),
                      Contains("are not a valid rank and size"));
}

}  // namespace
