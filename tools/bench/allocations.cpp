// Counts calls of operator new for `heed-bench train`.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tools/bench/bench.h"

namespace {
std::atomic<std::uint64_t> g_allocations{0};
}

std::uint64_t heed::allocations() { return g_allocations.load(std::memory_order_relaxed); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// All other forms of operator new call these two. These two allocate in the same way as in
// libstdc++.
void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  const auto a = std::size_t(align);
  if (void* memory = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
