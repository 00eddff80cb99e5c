// One pool of threads. The caller's grain alone decides where work is cut into chunks. It follows
// from the shape alone, or chunks share no sum (products): the same bits at any thread count.
#pragma once

#include <cstdint>

namespace heed::autograd {

/// Cores that this process may use, 1 to 256: those it was given (taskset, Slurm), else the
/// machine's.
int available_cores();
/// Threads that parallel_for uses, the caller included. Default: available_cores().
int num_threads();
/// 1 <= n <= 256; ValueError otherwise, or, with no change, when the system cannot start them. Not
/// while a parallel_for runs.
void set_num_threads(int n);

namespace detail {
using ChunkFn = void (*)(void* f, std::int64_t chunk);
void run_chunks(std::int64_t chunks, ChunkFn call, void* f);
}  // namespace detail

/// f(begin, end) over [0, n) in chunks of `grain` (the last may be shorter), each exactly once, in
/// any order, on any thread. What f throws first is rethrown here, once no chunk runs any more. A
/// busy pool, or a call from inside f, runs inline.
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
