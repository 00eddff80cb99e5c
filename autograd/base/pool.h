// Memory of the engine: size classes with free lists per thread, so that a training step that
// repeats its shapes calls malloc next to never. Off under AddressSanitizer, which then sees it
// all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace heed::autograd {

/// `bytes` of memory aligned to 64; std::bad_alloc when there is none.
void* pool_allocate(std::size_t bytes);
/// Gives back what pool_allocate(bytes) returned; any thread may.
void pool_free(void* memory, std::size_t bytes) noexcept;

struct PoolStats {
  std::uint64_t system_allocations;  ///< calls to the system's allocator so far, this thread
  std::uint64_t live_bytes;          ///< bytes handed out and not returned, all threads
  std::uint64_t peak_bytes;          ///< largest live_bytes since the start or reset_peak_bytes()
};
PoolStats pool_stats();
/// peak_bytes becomes live_bytes.
void reset_peak_bytes();

/// std allocator on the pool, for small vectors that live as long as an op.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(pool_allocate(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { pool_free(p, n * sizeof(T)); }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

/// Counted pointer to a T that has `std::atomic<std::uint32_t> refs` and `static void destroy(T*)`.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* p) : p_(p) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    // A sole owner needs no atomic read-modify-write to know that it is the last.
    if (p_ && (p_->refs.load(std::memory_order_acquire) == 1 ||
               p_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1))
      T::destroy(p_);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace heed::autograd
