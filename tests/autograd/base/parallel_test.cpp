// Tests of parallel_for(): each index is visited once, also in nested calls and in calls from two
// threads.
#include "autograd/autograd.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <atomic>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;

using heed::autograd::testing::Threads;

// Returns how often parallel_for() visits each index. If the bounds of a chunk differ from those
// that parallel.h documents, the first entry is -1.
std::vector<int> visits(Index n, Index grain) {
  std::vector<std::atomic<int>> count(std::size_t(std::max<Index>(n, 1)));
  std::atomic<bool> regular{true};
  parallel_for(n, grain, [&](Index begin, Index end) {
    const Index g = std::max<Index>(1, grain);
    if (begin % g != 0 || end != std::min(n, begin + g)) regular = false;
    for (Index i = begin; i < end; ++i) ++count[std::size_t(i)];
  });
  std::vector<int> out;
  for (Index i = 0; i < n; ++i) out.push_back(count[std::size_t(i)]);
  if (!regular && n > 0) out[0] = -1;
  return out;
}

TEST_CASE("parallel_for visits each index once, in chunks that do not depend on the threads") {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads scope(threads);
    CHECK(num_threads() == threads);
    for (const Index n : {0, 1, 2, 7, 100, 1001})
      for (const Index grain : {-1, 0, 1, 2, 7, 100, 5000}) {
        CAPTURE(threads, n, grain);
        CHECK(visits(n, grain) == std::vector<int>(std::size_t(n), 1));
      }
    for (int i = 0; i < 200; ++i) {
      std::atomic<Index> total{0};
      parallel_for(10, 1, [&](Index b, Index) { total += b; });
      REQUIRE(total == 45);
    }
  }
}

TEST_CASE("the teams of parallel_teams share the threads") {
  const Threads scope(8);
  for (const auto& [teams, each] : {std::pair(1, 8), {2, 4}, {3, 2}, {8, 1}, {20, 1}, {2, 4}}) {
    CAPTURE(teams, each);
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(teams));
    std::atomic<int> wrong = 0;
    parallel_teams(teams, [&, teams = teams, each = each](Index team) {
      wrong += num_threads() != each;
      for (int i = 0; i < 100; ++i) {
        std::atomic<Index> sum = 0;
        parallel_for(100, 1, [&](Index j, Index) {
          wrong += num_threads() != 1 && each > 1;
          sum += j;
        });
        wrong += sum != 4950;
      }
      // A team cannot be divided into teams, unless it is the only team and has all threads.
      parallel_teams(2, [&](Index) { wrong += num_threads() != (teams == 1 ? 4 : 1); });
      ++calls[std::size_t(team)];
    });
    CHECK(wrong == 0);
    for (const std::atomic<int>& n : calls) CHECK(n == 1);
    CHECK(num_threads() == 8);
  }
}

TEST_CASE("an error of a team reaches the caller, and the teams can work again") {
  const Threads scope(4);
  CHECK_THROWS_WITH(parallel_teams(2,
                                   [](Index team) {
                                     parallel_for(10, 1, [team](Index i, Index) {
                                       if (team == 1 && i == 7) throw std::runtime_error("chunk 7");
                                     });
                                   }),
                    Contains("chunk 7"));
  std::atomic<int> threads = 0;
  parallel_teams(2, [&](Index) { threads += num_threads(); });
  CHECK(threads == 4);
}

TEST_CASE("a loop of more chunks than a job can have, and jobs of fewer chunks than threads") {
  const Threads scope(8);
  const std::uint64_t before = pool_jobs();
  CHECK(visits(200'000, 1) == std::vector<int>(200'000, 1));
  CHECK(pool_jobs() - before == 4);  // 65535 chunks each
  for (int i = 0; i < 20'000; ++i) {
    std::atomic<Index> total{0};
    parallel_for(2 + i % 9, 1, [&](Index b, Index) { total += b + 1; });
    REQUIRE(total == (2 + i % 9) * (3 + i % 9) / 2);
  }
}

TEST_CASE("nested calls and concurrent calls run inline") {
  const Threads scope(3);
  std::atomic<int> inner{0};
  parallel_for(20, 1, [&](Index, Index) { parallel_for(30, 1, [&](Index, Index) { ++inner; }); });
  CHECK(inner == 600);
  std::atomic<int> wrong{0};
  const auto work = [&] {
    for (int i = 0; i < 300; ++i)
      for (const int v : visits(50, 3)) wrong += v != 1;
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(wrong == 0);
}

// Runs two chunks that wait for each other to start. Returns true if they run on two threads. If
// one thread runs both, the first chunk waits until its deadline, and the function returns false.
// The deadline is so far away that two threads meet before it even on a loaded machine.
bool two_threads_meet() {
  std::atomic<bool> arrived[2] = {false, false};
  std::atomic<bool> late{false};
  parallel_for(2, 1, [&](Index i, Index) {
    arrived[i] = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(200);
    while (!arrived[1 - i])
      if (std::chrono::steady_clock::now() > deadline) {
        late = true;
        return;
      }
  });
  return !late;
}

TEST_CASE("inside a chunk, there is one thread") {
  const Threads restore_at_end(3);
  std::atomic<int> wrong{0};
  for (int i = 0; i < 20; ++i) {
    parallel_for(6, 1, [&](Index, Index) {
      const std::thread::id own = std::this_thread::get_id();
      wrong += num_threads() != 1;
      parallel_for(4, 1, [&](Index, Index) {
        wrong += std::this_thread::get_id() != own || num_threads() != 1;
      });
      wrong += num_threads() != 1;
    });
    wrong += num_threads() != 3;
  }
  CHECK(wrong == 0);
}

TEST_CASE("chunks are distributed to several threads") {
  const Threads scope(2);
  CHECK(two_threads_meet());
}

TEST_CASE("an exception of a chunk reaches the caller once, and the pool stays usable") {
  for (const int threads : {1, 3}) {
    const Threads scope(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> running{0};
      const auto chunk = [&](Index begin, Index) {
        ++running;
        if (begin % 3 == 1) {
          --running;
          throw ValueError("chunk");
        }
        --running;
      };
      CHECK_THROWS_WITH(parallel_for(20, 1, chunk), "chunk");
      CHECK(running == 0);  // no chunk still runs and uses this stack frame
      CHECK(visits(20, 1) == std::vector<int>(20, 1));
    }
    // The last chunk of to() throws, because its last value is outside the range of int64.
    Tensor x = zeros({1 << 17});
    x.mutable_data<float>()[(1 << 17) - 1] = 1e30f;
    CHECK_THROWS_AS(to(x, int64), ValueError);
  }
}

TEST_CASE("after an error the pool is not busy, and the next call does not throw") {
  const Threads scope(2);
  CHECK_THROWS_AS(parallel_for(4, 1, [](Index, Index) { throw 1; }), int);
  CHECK(two_threads_meet());
}

TEST_CASE("set_num_threads accepts 1 to 256 threads") {
  const int before = num_threads();
  CHECK_THROWS_WITH(set_num_threads(0), "set_num_threads: needs 1 to 256 threads, got 0");
  CHECK_THROWS_AS(set_num_threads(257), ValueError);
  CHECK(num_threads() == before);
}

TEST_CASE("set_num_threads() inside a chunk is an error") {
  const Threads scope(3);
  const std::string error = "set_num_threads: cannot set 2 threads inside parallel_for()";
  CHECK_THROWS_WITH(parallel_for(8, 1, [](Index, Index) { set_num_threads(2); }), Contains(error));
  CHECK_THROWS_WITH(parallel_teams(3, [](Index) { set_num_threads(2); }), Contains(error));
  CHECK(num_threads() == 3);
}

TEST_CASE("parallel_for accepts the largest range") {
  constexpr Index kMost = std::numeric_limits<Index>::max(), kHalf = kMost / 2;
  const std::set<std::pair<Index, Index>> chunks = {
      {0, kHalf}, {kHalf, 2 * kHalf}, {2 * kHalf, kMost}};
  std::atomic<int> right = 0;
  parallel_for(kMost, kHalf, [&](Index begin, Index end) {
    right += int(chunks.count({begin, end}));
  });
  CHECK(right == 3);
}

#if defined(__linux__)
TEST_CASE("available_cores respects the CPU affinity") {
  cpu_set_t given;
  REQUIRE(::sched_getaffinity(0, sizeof given, &given) == 0);
  CHECK(available_cores() == std::min(CPU_COUNT(&given), 256));
  int cores = 0;
  std::thread([&] {  // a new thread, so that the affinity of the test's thread does not change
    int first = 0;
    while (!CPU_ISSET(first, &given)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) cores = available_cores();
  })
      .join();
  CHECK(cores == 1);
}
#endif

}  // namespace
