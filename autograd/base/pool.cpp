#include "autograd/base/pool.h"

#include <array>
#include <bit>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define HEED_POOL_OFF 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEED_POOL_OFF 1
#endif
#endif

namespace heed::autograd {
namespace {

constexpr std::size_t kAlign = 64;
#ifdef NDEBUG
constexpr bool kPoisoned = false;
#else
constexpr bool kPoisoned = true;  // fills new and freed blocks with 0xFF bytes (NaN as a float)
#endif
#ifdef HEED_POOL_OFF
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif
// The size classes are the multiples of 64 bytes up to 1088 bytes, and then four classes per power
// of two up to 2^40 bytes. Each of the larger classes has 64 extra bytes, so that a tensor of 2^n
// bytes and its header of 64 bytes (tensor/storage.h) fit into the class of 2^n bytes.
constexpr int kSmall = 17;
constexpr int kClasses = kSmall + 4 * 30;
constexpr std::size_t kMaxCached = std::size_t{1} << 30;  // largest number of free bytes per thread

struct SizeClass {
  int index;
  std::size_t bytes;
};

inline SizeClass size_class(std::size_t bytes) {
  if (bytes <= kSmall * kAlign) {
    const std::size_t i = bytes == 0 ? 0 : (bytes - 1) / kAlign;
    return {int(i), (i + 1) * kAlign};
  }
  const std::size_t body = bytes - kAlign;            // larger than 2^10
  const int log = int(std::bit_width(body - 1)) - 1;  // 2^log < body <= 2^(log+1), log >= 10
  const std::size_t step = std::size_t{1} << (log - 2);
  const std::size_t quarter = (body - 1 - (std::size_t{1} << log)) / step;  // 0 to 3
  const int index = kSmall + 4 * (log - 10) + int(quarter);
  if (index >= kClasses) throw std::bad_alloc();
  return {index, (std::size_t{1} << log) + (quarter + 1) * step + kAlign};
}

std::atomic<std::int64_t> g_live{0}, g_peak{0};

struct FreeBlock {
  FreeBlock* next;
};

// Free lists and counters of a thread. The type is trivial, so that the state can still be used
// after the destructors of the thread have run. Tensors in static variables are freed only then.
struct ThreadState {
  std::array<FreeBlock*, kClasses> free;
  std::size_t room;  // bytes that may still be cached; 0 before open() and after ~Closer()
  std::uint64_t system_allocations;
  bool opened;
};
thread_local ThreadState t_state;

// Frees all cached blocks when the thread ends.
struct Closer {
  ~Closer() {
    for (FreeBlock*& head : t_state.free)
      while (head) {
        FreeBlock* next = head->next;
        ::operator delete (head, std::align_val_t{kAlign});
        head = next;
      }
    t_state.room = 0;
  }
};

// Registers the Closer of this thread. It is called before the thread caches its first block, so
// that a thread that only frees blocks also returns them to the system when it ends.
void open() {
  thread_local Closer closer;
  (void)closer;
  t_state.opened = true;
  t_state.room = kMaxCached;
}

// Adds `bytes`, which may be negative, to the live bytes and updates the peak.
void count(std::int64_t bytes) {
  const std::int64_t live = g_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (live > peak && !g_peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void* system_allocate(std::size_t bytes) {
  ++t_state.system_allocations;
  // Uses the nothrow form, because AddressSanitizer aborts the process if the throwing form fails.
  void* memory = ::operator new (bytes, std::align_val_t{kAlign}, std::nothrow);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* pool_allocate(std::size_t bytes) {
  if constexpr (!kPooled) {
    void* memory = system_allocate(bytes ? bytes : 1);
    count(std::int64_t(bytes));
    return memory;
  }
  const SizeClass size = size_class(bytes);
  FreeBlock*& head = t_state.free[std::size_t(size.index)];
  void* memory = head;
  if (head) {
    head = head->next;
    t_state.room += size.bytes;
  } else {
    memory = system_allocate(size.bytes);
  }
  if constexpr (kPoisoned) std::memset(memory, 0xFF, size.bytes);
  // Small blocks (graph nodes, handles) are not counted: counting would cost more than allocating.
  if (size.index >= kSmall) count(std::int64_t(size.bytes));
  return memory;
}

void pool_free(void* memory, std::size_t bytes) noexcept {
  if constexpr (!kPooled) {
    count(-std::int64_t(bytes));
    ::operator delete (memory, std::align_val_t{kAlign});
    return;
  }
  const SizeClass size = size_class(bytes);
  if (size.index >= kSmall) count(-std::int64_t(size.bytes));
  if (size.bytes > t_state.room) [[unlikely]] {
    if (!t_state.opened) open();
    if (size.bytes > t_state.room) return ::operator delete (memory, std::align_val_t{kAlign});
  }
  if constexpr (kPoisoned) std::memset(memory, 0xFF, size.bytes);
  auto* block = static_cast<FreeBlock*>(memory);
  FreeBlock*& head = t_state.free[std::size_t(size.index)];
  block->next = head;
  head = block;
  t_state.room -= size.bytes;
}

PoolStats pool_stats() {
  return {t_state.system_allocations, std::uint64_t(g_live.load(std::memory_order_relaxed)),
          std::uint64_t(g_peak.load(std::memory_order_relaxed))};
}

void reset_peak_bytes() { g_peak.store(g_live.load(std::memory_order_relaxed)); }

}  // namespace heed::autograd
