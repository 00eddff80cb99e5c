// Tests of the memory pool: alignment, size classes, reuse, counters, and blocks that another
// thread frees.
#include "autograd/base/pool.h"

#include <new>
#include <thread>

#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif
constexpr const char* kNoPool = "the pool is off under AddressSanitizer";

std::uint64_t system_calls() { return pool_stats().system_allocations; }

TEST_CASE("blocks are aligned to 64, have the requested size and do not overlap") {
  struct Block {
    unsigned char* p;
    std::size_t n;
  };
  std::vector<Block> blocks;
  for (std::size_t n = 0; n < 5000; n = n < 130 ? n + 1 : n * 9 / 8)
    for (int copy = 0; copy < 2; ++copy) {
      blocks.push_back({static_cast<unsigned char*>(pool_allocate(n)), n});
      CHECK(reinterpret_cast<std::uintptr_t>(blocks.back().p) % 64 == 0);
      std::memset(blocks.back().p, int(blocks.size() % 251), n);
    }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    bool whole = true;
    for (std::size_t k = 0; k < blocks[i].n; ++k) whole = whole && blocks[i].p[k] == (i + 1) % 251;
    CHECK(whole);
    pool_free(blocks[i].p, blocks[i].n);
  }
}

TEST_CASE("a freed block is reused for any size of its class, without a system call") {
  if (skips(!kPooled, kNoPool)) return;
  for (const std::size_t n : {std::size_t{100}, std::size_t{1100}, std::size_t{100000}}) {
    void* first = pool_allocate(n);
    pool_free(first, n);
    const std::uint64_t before = system_calls();
    void* again = pool_allocate(n - 1);
    CHECK(again == first);
    CHECK(system_calls() == before);
    pool_free(again, n - 1);
  }
}

TEST_CASE("live and peak bytes follow large blocks") {
  const std::size_t n = 1 << 22;
  const PoolStats before = pool_stats();
  void* p = pool_allocate(n);
  const PoolStats during = pool_stats();
  CHECK(during.live_bytes >= before.live_bytes + n);
  // Four size classes per power of two: a block is at most a quarter larger than requested.
  CHECK(during.live_bytes <= before.live_bytes + n + n / 4);
  CHECK(during.peak_bytes >= during.live_bytes);
  pool_free(p, n);
  CHECK(pool_stats().live_bytes == before.live_bytes);
  CHECK(pool_stats().peak_bytes >= during.live_bytes);
}

TEST_CASE("a tensor of 2^n bytes takes 2^n + 64 bytes, including its header") {
  if (skips(!kPooled, kNoPool)) return;
  for (std::int64_t bytes = 1 << 11; bytes <= 1 << 24; bytes *= 2) {
    CAPTURE(bytes);
    const std::uint64_t before = pool_stats().live_bytes;
    const Tensor x = empty({bytes / 4});
    CHECK(pool_stats().live_bytes - before == std::uint64_t(bytes) + 64);
  }
}

TEST_CASE("a block may be freed by another thread") {
  const std::uint64_t before = pool_stats().live_bytes;
  void* p = pool_allocate(1 << 16);
  std::thread([p] { pool_free(p, 1 << 16); }).join();
  CHECK(pool_stats().live_bytes == before);
  Tensor x = ones({1000});
  const Tensor& same = x;
  x = same;
  CHECK(x.at({999}) == 1);
  std::thread([y = std::move(x)]() mutable { y = Tensor(); }).join();
  CHECK(pool_stats().live_bytes == before);
}

TEST_CASE("a thread that only frees blocks returns its cached blocks when it ends") {
#if defined(__SANITIZE_THREAD__)
  if (skips(true, "ThreadSanitizer does not return its shadow memory to the system")) return;
#endif
  if (skips(!kPooled, kNoPool)) return;
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t pages = 0, in_memory = 0;
    statm >> pages >> in_memory;
    return in_memory;  // 0 on systems without /proc, where the check below always holds
  };
  const std::size_t n = std::size_t{1} << 26;
  const std::uint64_t before = resident();
  for (int i = 0; i < 8; ++i) {
    void* p = pool_allocate(n);
    std::memset(p, 1, n);
    std::thread([p] { pool_free(p, n); }).join();
  }
  CHECK(resident() <= before + 3 * n / 4096);
}

TEST_CASE("a size above the limit throws bad_alloc and changes nothing") {
  const std::uint64_t before = pool_stats().live_bytes;
  CHECK_THROWS_AS(pool_allocate(std::size_t{1} << 50), std::bad_alloc);
  CHECK(pool_stats().live_bytes == before);
}

TEST_CASE("a training step that repeats its shapes does not call the system's allocator") {
  if (skips(!kPooled, kNoPool)) return;
  const Tensor w = randn({32, 32}).requires_grad_(), b = randn({32}).requires_grad_();
  const Tensor x = randn({16, 32});
  const auto step = [&] {
    w.zero_grad(), b.zero_grad();
    backward(sum(softmax(gelu(linear(layer_norm(x, 32), w, b)), -1) * x));
  };
  for (int i = 0; i < 3; ++i) step();
  const std::uint64_t before = system_calls(), live = pool_stats().live_bytes;
  for (int i = 0; i < 20; ++i) step();
  CHECK(system_calls() == before);
  CHECK(pool_stats().live_bytes == live);
}

}  // namespace
