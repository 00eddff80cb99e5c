#include "autograd/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
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

// One job at a time. Workers spin briefly for the next job (kernels follow one another within
// microseconds), then sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }

  ~ThreadPool() {
    {
      std::lock_guard lock(mutex_);
      stop_.store(true);
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  int size() const { return int(workers_.size()) + 1; }

  /// False if the pool is busy.
  bool try_run(std::int64_t chunks, detail::ChunkFn call, void* f) {
    if (workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) return false;
    call_ = call;
    f_ = f;
    chunks_ = chunks;
    next_.store(0, std::memory_order_relaxed);
    active_.store(int(workers_.size()), std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load() > 0) wake_.notify_all();
    take_chunks();
    // Chunks end within microseconds of each other, unless another process has the core.
    for (int i = 0; active_.load(std::memory_order_acquire) > 0; ++i)
      i < 4000 ? relax() : std::this_thread::yield();
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  void take_chunks() {
    for (;;) {
      const std::int64_t c = next_.fetch_add(1, std::memory_order_relaxed);
      if (c >= chunks_) return;
      call_(f_, c);
    }
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < 20000 && generation_.load(std::memory_order_acquire) == seen; ++i) {
        if (stop_.load(std::memory_order_relaxed)) return;
        relax();
      }
      if (generation_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        sleepers_.fetch_add(1);
        wake_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
        sleepers_.fetch_sub(1);
        if (stop_) return;
      }
      seen = generation_.load(std::memory_order_acquire);
      take_chunks();
      active_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> busy_{false}, stop_{false};
  std::atomic<int> sleepers_{0}, active_{0};
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::int64_t> next_{0};
  detail::ChunkFn call_ = nullptr;
  void* f_ = nullptr;
  std::int64_t chunks_ = 0;
};

std::unique_ptr<ThreadPool>& pool() {
  static auto p = std::make_unique<ThreadPool>(
      std::clamp(int(std::thread::hardware_concurrency()), 1, 256));
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
