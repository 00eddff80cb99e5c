// The thread pool that all kernels share, and pools of teams of threads. parallel_for() divides a
// range of indices into chunks of `grain` indices.
//
// Results have the same bits at any number of threads if the caller follows one of two rules.
// The first rule: the grain depends only on the shapes of the arrays. The second rule: no sum has
// terms from two chunks. Matrix products follow the second rule.
#pragma once

#include <cstdint>
#include <functional>

#include "autograd/base/index.h"

namespace heed::autograd {

/// Returns the number of cores that this process may use, between 1 and 256. On Linux this respects
/// the CPU affinity that taskset or Slurm sets; elsewhere it is the number of cores of the machine.
int available_cores();
/// Returns the number of threads that parallel_for() uses, including the calling thread: 1 inside a
/// chunk of a parallel_for() of several threads, and a share of all threads inside a team of
/// parallel_teams(). The default is available_cores().
int num_threads();
/// Sets the number of threads. Throws ValueError if n is not in [1, 256], and IoError if the system
/// cannot start n threads. The number of threads is then unchanged. Also throws ValueError inside a
/// chunk of a parallel_for() of several threads, and inside a team of parallel_teams(). Do not call
/// it while another thread runs parallel_for().
void set_num_threads(int n);

/// Returns the number of jobs that the threads of all pools have shared so far. Each ends with a
/// barrier: the calling thread waits for all chunks. A parallel_for() that one thread runs alone
/// does not count.
std::uint64_t pool_jobs();

namespace detail {
using ChunkFn = void (*)(void* f, Index chunk);
void run_chunks(Index chunks, ChunkFn call, void* f);
}  // namespace detail

/// Divides the indices [0, n) into chunks of `grain` indices, and calls f(begin, end) once for each
/// chunk [begin, end). The last chunk may be shorter. Chunks run in any order and on any thread of
/// the pool. If a call of f throws, parallel_for() rethrows the first exception after all chunks
/// that have started have ended. Chunks that have not started may then be left out. If the pool is
/// busy, or if parallel_for() is called from inside f, the calling thread runs all chunks. If
/// `grain` is below 1, each chunk has one index.
template <class F>
void parallel_for(Index n, Index grain, F&& f) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  const Index chunks = (n - 1) / grain + 1;
  auto one = [&f, n, grain](Index c) {
    const Index begin = c * grain;
    f(begin, n - begin > grain ? begin + grain : n);
  };
  if (chunks == 1) return one(0);
  detail::run_chunks(
      chunks, [](void* g, Index c) { (*static_cast<decltype(one)*>(g))(c); }, &one);
}

/// Calls f(0), ..., f(teams - 1) side by side. Inside f, parallel_for() has num_threads() / teams
/// threads, rounded down, which work for this call of f alone. If f throws, parallel_teams() does
/// as parallel_for() does. In four cases the calls of f run like the chunks of a parallel_for():
/// if a team would have fewer than two threads, if this function is called inside f, if another
/// thread is running it, and if the system cannot start the threads of the teams.
void parallel_teams(Index teams, const std::function<void(Index team)>& f);

}  // namespace heed::autograd
