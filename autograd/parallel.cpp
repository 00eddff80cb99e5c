#include "autograd/parallel.h"

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

#include "autograd/error.h"

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

// One job at a time: a number of chunks, claimed one by one. The caller claims too, and waits only
// for chunks that a worker has claimed, never for a worker to wake up. Workers spin briefly for the
// next job (kernels follow one another within microseconds), then sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    workers_.reserve(std::size_t(threads - 1));
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      const int started = size();
      stop();
      fail<ValueError>("set_num_threads", "the system starts only ", started, " of ", threads,
                       " threads (", e.what(), ")");
    }
  }

  ~ThreadPool() { stop(); }

  int size() const { return int(workers_.size()) + 1; }

  /// False if the pool is busy.
  bool try_run(std::int64_t chunks, detail::ChunkFn call, void* f) {
    if (workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) return false;
    call_ = call;
    f_ = f;
    chunks_ = chunks;
    done_.store(0, std::memory_order_relaxed);
    unclaimed_.store(chunks);  // publishes the job
    if (sleepers_.load() > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    while (run_one()) {
    }
    // Chunks end within microseconds of each other, unless another process has the core.
    for (int i = 0; done_.load(std::memory_order_acquire) < chunks; ++i)
      i < 4000 ? relax() : std::this_thread::yield();
    const std::exception_ptr error = std::exchange(error_, nullptr);
    busy_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
    return true;
  }

 private:
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  // Claims and runs a chunk. The job's fields are read after the claim: until that chunk is done
  // the job cannot end, so they are its own, even if the count was read in an earlier job.
  bool run_one() {
    std::int64_t left = unclaimed_.load(std::memory_order_relaxed);
    do {
      if (left == 0) return false;
    } while (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                               std::memory_order_relaxed));
    try {
      call_(f_, chunks_ - left);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }

  void work() {
    for (;;) {
      for (int i = 0; i < 20000; ++i) {
        if (stop_.load(std::memory_order_relaxed)) return;
        if (run_one())
          i = 0;
        else
          relax();
      }
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [this] { return stop_.load() || unclaimed_.load() > 0; });
      sleepers_.fetch_sub(1);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> busy_{false}, stop_{false};
  std::atomic<int> sleepers_{0};
  std::atomic<std::int64_t> unclaimed_{0}, done_{0};
  detail::ChunkFn call_ = nullptr;
  void* f_ = nullptr;
  std::int64_t chunks_ = 0;
  std::exception_ptr error_;  // the job's first; written under mutex_, read after its last chunk
};

std::unique_ptr<ThreadPool>& pool() {
  static auto p =
      std::make_unique<ThreadPool>(std::clamp(int(std::thread::hardware_concurrency()), 1, 256));
  return p;
}

}  // namespace

int num_threads() { return pool()->size(); }

void set_num_threads(int n) {
  check<ValueError>(n >= 1 && n <= 256, "set_num_threads", "needs 1 to 256 threads, got ", n);
  if (n != pool()->size()) pool() = std::make_unique<ThreadPool>(n);
}

void detail::run_chunks(std::int64_t chunks, ChunkFn call, void* f) {
  if (pool()->try_run(chunks, call, f)) return;
  for (std::int64_t c = 0; c < chunks; ++c) call(f, c);
}

}  // namespace heed::autograd
