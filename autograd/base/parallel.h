// The thread pool that all kernels share. parallel_for() splits work into chunks of a given grain.
//
// Results have the same bits at any number of threads if callers follow one of two rules: the grain
// depends on the shape only, or no sum includes terms from two chunks (matrix products).
#pragma once

#include <cstdint>

namespace heed::autograd {

/// Returns the number of cores that this process may use, between 1 and 256. On Linux this respects
/// the CPU affinity that taskset or Slurm sets; elsewhere it is the number of cores of the machine.
int available_cores();
/// Returns the number of threads that parallel_for() uses, including the calling thread. The
/// default is available_cores().
int num_threads();
/// Sets the number of threads. Throws ValueError unless 1 <= n <= 256, or if the system cannot
/// start the threads; the pool is then unchanged. Do not call it while a parallel_for() is running.
void set_num_threads(int n);

namespace detail {
using ChunkFn = void (*)(void* f, std::int64_t chunk);
void run_chunks(std::int64_t chunks, ChunkFn call, void* f);
}  // namespace detail

/// Calls f(begin, end) for each chunk of `grain` indices of [0, n), exactly once. The last chunk
/// may be shorter. Chunks run in any order and on any thread of the pool. If calls of f throw, the
/// first exception is rethrown after all chunks have finished. If the pool is busy, or if
/// parallel_for() is called from inside f, the calling thread runs all chunks. A grain below 1
/// means 1.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  const std::int64_t chunks = (n + grain - 1) / grain;
  auto one = [&f, n, grain](std::int64_t c) {
    const std::int64_t begin = c * grain;
    f(begin, begin + grain < n ? begin + grain : n);
  };
  if (chunks == 1) return one(0);
  detail::run_chunks(
      chunks, [](void* g, std::int64_t c) { (*static_cast<decltype(one)*>(g))(c); }, &one);
}

}  // namespace heed::autograd
