#include "autograd/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/base/error.h"

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace heed::autograd {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Number of jobs so far, of all pools.
std::atomic<std::uint64_t> jobs_run{0};

// True while this thread runs a chunk of a job.
thread_local bool inside_chunk = false;

// Sets inside_chunk until the end of a scope.
struct InsideChunk {
  bool outer = std::exchange(inside_chunk, true);
  InsideChunk() = default;
  InsideChunk(const InsideChunk&) = delete;
  InsideChunk& operator=(const InsideChunk&) = delete;
  ~InsideChunk() { inside_chunk = outer; }
};

// A thread pool that runs one job at a time. A job consists of a number of chunks.
//
// Each thread owns a contiguous range of the chunks. The range covers the same fraction of every
// job, so that rows of a matrix stay in the cache of one core from op to op. A thread that has
// finished its range takes chunks of other threads. The calling thread waits only for chunks that
// a worker has claimed; it never waits for a worker to wake up. Idle workers spin briefly, because
// the next kernel often starts within microseconds, and then sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) : slots_(std::size_t(threads)), reported_(std::size_t(threads)) {
    workers_.reserve(std::size_t(threads - 1));
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(std::size_t(i)); });
    } catch (const std::system_error& e) {
      const int started = size();
      stop();
      fail<IoError>("set_num_threads", "the system can start only ", started, " of ", threads,
                    " threads (", e.what(),
                    "); lower `threads`, or raise the limit of processes (ulimit -u)");
    }
  }

  ~ThreadPool() { stop(); }

  int size() const { return int(workers_.size()) + 1; }

  // Runs all chunks of a job and returns true. Returns false, without running anything, if the pool
  // is busy or has no workers.
  bool try_run(std::int64_t chunks, detail::ChunkFn call, void* f) {
    if (workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) return false;
    const auto threads = std::int64_t(slots_.size());
    for (std::int64_t t = threads; t-- > 0;) {  // the caller's slot (t = 0) is last
      Slot& slot = slots_[std::size_t(t)];
      slot.end = chunks * (t + 1) / threads;
      slot.call = call;
      slot.f = f;
      slot.left.store(slot.end - chunks * t / threads);  // makes the job visible to the workers
    }
    if (sleepers_.load() > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    jobs_run.store(jobs_run.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    ended_ += chunks;
    reported_[0].chunks.store(reported_[0].chunks.load(std::memory_order_relaxed) + run_from(0),
                              std::memory_order_relaxed);
    // Spins before it yields, because chunks usually end within microseconds of each other.
    for (int i = 0; all_reported() < ended_; ++i) i < 4000 ? relax() : std::this_thread::yield();
    const std::exception_ptr error = std::exchange(error_, nullptr);
    busy_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
    return true;
  }

 private:
  // Data of different threads are on different cache lines. Moving a cache line between cores takes
  // 0.1 to 0.5 microseconds, and a whole job may be as short as that.

  // The chunks that one thread owns. The thread that calls try_run() writes the slot. Any thread
  // may claim a chunk.
  struct alignas(128) Slot {
    std::atomic<std::int64_t> left{0};  // chunks [end - left, end) are not claimed yet
    std::int64_t end = 0;
    detail::ChunkFn call = nullptr;
    void* f = nullptr;
  };
  // Progress of one thread. Only that thread writes it.
  struct alignas(128) Reported {
    std::atomic<std::int64_t> chunks{0};  // number of chunks finished, over all jobs
  };

  std::int64_t all_reported() const {
    std::int64_t sum = 0;
    for (const Reported& r : reported_) sum += r.chunks.load(std::memory_order_acquire);
    return sum;
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  // Claims one chunk of a slot and runs it. Returns false if the slot has no unclaimed chunk. The
  // other fields of the slot are read after the claim. They belong to the current job even if
  // `left` was read during an earlier job, because a job cannot end before its claimed chunks are
  // reported.
  bool run_one(Slot& slot) {
    std::int64_t left = slot.left.load(std::memory_order_relaxed);
    do {
      if (left == 0) return false;
    } while (!slot.left.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                              std::memory_order_relaxed));
    const InsideChunk inside;
    try {
      slot.call(slot.f, slot.end - left);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    return true;
  }

  // Claims and runs chunks until all chunks are claimed, starting with the chunks of slot `own`.
  // Returns the number of chunks that it has run.
  std::int64_t run_from(std::size_t own) {
    std::int64_t ran = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[(own + i) % slots_.size()];
      while (run_one(slot)) ++ran;
    }
    return ran;
  }

  void work(std::size_t own) {
    const auto& mine = slots_[own].left;  // an idle worker does not read the slots of other threads
    std::int64_t ran = 0;
    for (;;) {
      for (int i = 0; i < 20000; ++i) {
        if (stop_.load(std::memory_order_relaxed)) return;
        if (mine.load(std::memory_order_relaxed) > 0) {
          reported_[own].chunks.store(ran += run_from(own), std::memory_order_release);
          i = 0;
        } else {
          relax();
        }
      }
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return stop_.load() || mine.load() > 0; });
      sleepers_.fetch_sub(1);
    }
  }

  std::vector<Slot> slots_;         // one per thread; slot 0 belongs to the caller
  std::vector<Reported> reported_;  // one per thread, in the same order
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stop_{false};  // polled by idle workers
  std::atomic<int> sleepers_{0};
  alignas(128) std::atomic<bool> busy_{false};
  std::int64_t ended_ = 0;    // number of chunks of all jobs so far, including the current job
  std::exception_ptr error_;  // first error of the job; mutex_ guards it until the last chunk ends
};

// Returns the pool. The first call starts it, with `threads` threads or, if that is 0, one per
// core.
std::unique_ptr<ThreadPool>& pool(int threads = 0) {
  static auto p = std::make_unique<ThreadPool>(threads > 0 ? threads : available_cores());
  return p;
}

}  // namespace

int available_cores() {
  int cores = int(std::thread::hardware_concurrency());
#if defined(__linux__)  // hardware_concurrency() may ignore the affinity of the process
  cpu_set_t given;
  CPU_ZERO(&given);
  if (::sched_getaffinity(0, sizeof given, &given) == 0) cores = CPU_COUNT(&given);
#endif
  return std::clamp(cores, 1, 256);
}

int num_threads() { return inside_chunk ? 1 : pool()->size(); }

void set_num_threads(int n) {
  check<ValueError>(n >= 1 && n <= 256, "set_num_threads", "needs 1 to 256 threads, got ", n);
  if (n != pool(n)->size()) pool() = std::make_unique<ThreadPool>(n);
}

std::uint64_t pool_jobs() { return jobs_run.load(std::memory_order_relaxed); }

void detail::run_chunks(std::int64_t chunks, ChunkFn call, void* f) {
  if (!inside_chunk && pool()->try_run(chunks, call, f)) return;
  for (std::int64_t c = 0; c < chunks; ++c) call(f, c);
}

}  // namespace heed::autograd
