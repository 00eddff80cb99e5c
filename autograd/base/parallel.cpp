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
alignas(128) std::atomic<std::uint64_t> jobs_run{0};

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

  static constexpr Index kMostChunks = (1 << 16) - 1;

  // Runs the chunks [begin, begin + chunks) of a job, at most kMostChunks, and returns true.
  // Returns false, without running anything, if the pool is busy or has no workers.
  bool try_run(Index begin, Index chunks, detail::ChunkFn call, void* f) {
    if (workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) return false;
    begin_ = begin, call_ = call, f_ = f;
    job_.store({job_.load(std::memory_order_relaxed).number() + 1, chunks});
    if (sleepers_.load() > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    jobs_run.fetch_add(1, std::memory_order_relaxed);
    ended_ += chunks;
    run_and_report(0);
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

  // The number of a job, from 1, and a number of its chunks. One atomic operation replaces both.
  // The number of the job has 48 bits, enough for 8 years of a million jobs per second.
  struct Count {
    std::uint64_t bits = 0;
    Count() = default;
    Count(std::uint64_t number, Index chunks) : bits(number << 16 | std::uint64_t(chunks)) {}
    std::uint64_t number() const { return bits >> 16; }
    Index chunks() const { return Index(bits & kMostChunks); }
  };
  // The number of claimed chunks among those that one thread owns, with the number of their job. If
  // the slot has the number of an earlier job, no chunk that the thread owns in the current job is
  // claimed. The start of a job therefore writes to no slot. Any thread may claim a chunk.
  struct alignas(128) Slot {
    std::atomic<Count> claimed{};
  };
  // Progress of one thread. Only that thread writes it.
  struct alignas(128) Reported {
    std::atomic<Index> chunks{0};  // number of chunks finished, over all jobs
  };

  Index all_reported() const {
    Index sum = 0;
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

  // Returns the first of the chunks of a job that a thread owns. It is rounded up, so that the
  // caller owns a chunk of each job, and need not wait for a worker to wake up.
  Index first_of(std::size_t thread, Count job) const {
    const auto threads = Index(slots_.size());
    return (job.chunks() * Index(thread) + threads - 1) / threads;
  }

  // Claims one of the chunks that `owner` owns and runs it. Returns false if all are claimed. A
  // thread may come here late, after the job has ended. Then `owner` owns no chunk of this job, or
  // all of them are claimed and the slot has the number of this job or of a later one. After a
  // claim, call_ and f_ belong to the job, because it cannot end before its claimed chunks are
  // reported.
  bool run_one(std::size_t owner, Count job) {
    const Index first = first_of(owner, job), owned = first_of(owner + 1, job) - first;
    std::atomic<Count>& claimed = slots_[owner].claimed;
    Count now = claimed.load(std::memory_order_relaxed);
    Index next = 0;
    do {
      if (now.number() > job.number()) return false;
      next = now.number() == job.number() ? now.chunks() : 0;
      if (next == owned) return false;
    } while (!claimed.compare_exchange_weak(now, {job.number(), next + 1},
                                            std::memory_order_acquire, std::memory_order_relaxed));
    const InsideChunk inside;
    try {
      call_(f_, begin_ + first + next);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    return true;
  }

  // Claims and runs chunks of the current job until all are claimed, starting with those that `own`
  // owns, and reports how many it has run.
  void run_and_report(std::size_t own) {
    const Count job = job_.load(std::memory_order_acquire);
    Index ran = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      while (run_one((own + i) % slots_.size(), job)) ++ran;
    if (ran == 0) return;  // a write would move the cache line, which the caller polls
    std::atomic<Index>& chunks = reported_[own].chunks;
    chunks.store(chunks.load(std::memory_order_relaxed) + ran, std::memory_order_release);
  }

  void work(std::size_t own) {
    std::uint64_t seen = 0;  // number of the last job in which this thread looked for chunks
    const auto has_chunks = [&](Count job) {
      return job.number() != seen && first_of(own + 1, job) > first_of(own, job);
    };
    for (;;) {
      for (int i = 0; i < 20000; ++i) {
        if (stop_.load(std::memory_order_relaxed)) return;
        if (const Count job = job_.load(std::memory_order_relaxed); has_chunks(job)) {
          seen = job.number();
          run_and_report(own);
          i = 0;
        } else {
          relax();
        }
      }
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return stop_.load() || has_chunks(job_.load()); });
      sleepers_.fetch_sub(1);
    }
  }

  alignas(128) std::atomic<Count> job_{};  // the last job; idle workers poll it
  Index begin_ = 0;                        // its first chunk
  detail::ChunkFn call_ = nullptr;
  void* f_ = nullptr;
  alignas(128) std::vector<Slot> slots_;  // one per thread; slot 0 belongs to the caller
  std::vector<Reported> reported_;        // one per thread, in the same order
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stop_{false};  // polled by idle workers
  std::atomic<int> sleepers_{0};
  alignas(128) std::atomic<bool> busy_{false};
  Index ended_ = 0;           // number of chunks of all jobs so far, including the current job
  std::exception_ptr error_;  // first error of the job; mutex_ guards it until the last chunk ends
};

// Returns the pool. The first call starts it, with `threads` threads or, if that is 0, one per
// core.
std::unique_ptr<ThreadPool>& pool(int threads = 0) {
  static auto p = std::make_unique<ThreadPool>(threads > 0 ? threads : available_cores());
  return p;
}

// The pool of the team to which this thread belongs, or null outside of parallel_teams().
thread_local ThreadPool* team_pool = nullptr;

ThreadPool& current_pool() { return team_pool ? *team_pool : *pool(); }

// The pools of the teams of parallel_teams().
std::mutex teams_mutex;  // held while the teams work
std::vector<std::unique_ptr<ThreadPool>> team_pools;

// Makes a pool of `each` threads for each team. Returns false if the system cannot start them.
bool start_teams(Index teams, int each) {
  if (std::ssize(team_pools) == teams && team_pools[0]->size() == each) return true;
  team_pools.clear();
  try {
    for (Index i = 0; i < teams; ++i) team_pools.push_back(std::make_unique<ThreadPool>(each));
  } catch (const IoError&) {
    team_pools.clear();
  }
  return !team_pools.empty();
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

int num_threads() { return inside_chunk ? 1 : current_pool().size(); }

void set_num_threads(int n) {
  check<ValueError>(n >= 1 && n <= 256, "set_num_threads", "needs 1 to 256 threads, got ", n);
  check<ValueError>(!inside_chunk && !team_pool, "set_num_threads", "cannot set ", n,
                    " threads inside parallel_for(), whose threads it would replace; call it "
                    "before");
  if (n == pool(n)->size()) return;
  pool() = std::make_unique<ThreadPool>(n);
  const std::lock_guard lock(teams_mutex);
  team_pools.clear();
}

std::uint64_t pool_jobs() { return jobs_run.load(std::memory_order_relaxed); }

void detail::run_chunks(Index chunks, ChunkFn call, void* f) {
  Index done = 0;
  while (!inside_chunk && done < chunks) {
    const Index some = std::min(chunks - done, ThreadPool::kMostChunks);
    if (!current_pool().try_run(done, some, call, f)) break;
    done += some;
  }
  for (Index c = done; c < chunks; ++c) call(f, c);
}

void parallel_teams(Index teams, const std::function<void(Index)>& f) {
  const int each = int(num_threads() / std::max<Index>(teams, 1));
  std::unique_lock lock(teams_mutex, std::defer_lock);
  const bool split =
      teams > 1 && each > 1 && !team_pool && lock.try_lock() && start_teams(teams, each);
  parallel_for(teams, 1, [&](Index team, Index) {
    if (!split) return f(team);
    // The thread is inside a chunk of the common pool, but may share its work with its team.
    struct Join {
      bool outer = std::exchange(inside_chunk, false);
      explicit Join(ThreadPool* pool) { team_pool = pool; }
      Join(const Join&) = delete;
      Join& operator=(const Join&) = delete;
      ~Join() { team_pool = nullptr, inside_chunk = outer; }
    } const join(team_pools[std::size_t(team)].get());
    f(team);
  });
}

}  // namespace heed::autograd
