// Memory pool for tensors, graph nodes and kernels. Each thread has one free list per size class,
// so a training step that repeats its shapes almost never calls the system's allocator. Under
// AddressSanitizer the pool is off, so that the sanitizer can check every allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace heed::autograd {

/// Allocates `bytes` bytes, aligned to 64 bytes. Throws std::bad_alloc if no memory is available.
void* pool_allocate(std::size_t bytes);
/// Frees memory that pool_allocate() returned. `bytes` must have the value that was given to
/// pool_allocate(). Any thread may free the memory.
void pool_free(void* memory, std::size_t bytes) noexcept;

/// Counters of the memory pool.
struct PoolStats {
  std::uint64_t system_allocations;  ///< calls to the system's allocator by this thread
  std::uint64_t live_bytes;          ///< bytes allocated and not freed, by all threads
  /// Largest live_bytes since the program started or since the last reset_peak_bytes().
  std::uint64_t peak_bytes;
};
/// Returns the counters. live_bytes and peak_bytes do not include blocks of up to 1088 bytes,
/// because counting such a block would take longer than allocating it. If the pool is off (under
/// AddressSanitizer), they include all blocks.
PoolStats pool_stats();
/// Sets peak_bytes to the current live_bytes.
void reset_peak_bytes();

/// Allocator for standard containers that uses the memory pool. It is meant for small vectors that
/// exist only during one op.
template <class T>
struct PoolAllocator {
  using value_type = T;  ///< required by the standard library
  ///@{
  /// Creates an allocator. It has no state.
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}
  ///@}
  /// Returns uninitialized memory for n values.
  T* allocate(std::size_t n) { return static_cast<T*>(pool_allocate(n * sizeof(T))); }
  /// Frees memory that allocate(n) returned.
  void deallocate(T* p, std::size_t n) noexcept { pool_free(p, n * sizeof(T)); }
  /// Returns true, because all allocators are interchangeable.
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

/// Vector that uses the memory pool.
template <class T>
using PoolVector = std::vector<T, PoolAllocator<T>>;

/// Reference-counted pointer. T must have a member `std::atomic<std::uint32_t> refs` and a function
/// `static void destroy(T*)`, which is called when the last pointer is destroyed.
template <class T>
class Ref {
 public:
  ///@{
  /// Creates a null pointer, or a pointer to *p. Copying increments the reference count; moving
  /// does not.
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* p) : p_(p) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  ///@}
  /// Points to the object of `o`, and then releases the previous object.
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    // If the count is 1, this is the last pointer and no atomic decrement is needed.
    if (p_ && (p_->refs.load(std::memory_order_acquire) == 1 ||
               p_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1))
      T::destroy(p_);
  }
  ///@{
  /// Returns the pointer, or a reference to the object. The operators * and -> require that the
  /// pointer is not null.
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  ///@}
  /// Returns true unless the pointer is null.
  explicit operator bool() const { return p_ != nullptr; }
  /// Returns true if a and b point to the same object, or if both are null.
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace heed::autograd
