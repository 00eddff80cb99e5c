// The bytes behind tensors, and the version that tells when they changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "autograd/base/pool.h"

namespace heed::autograd {

/// One block from the pool: this header, then the bytes, aligned to 64.
struct Storage {
  std::atomic<std::uint32_t> refs{0};
  std::uint32_t version = 0;  ///< raised by each in-place write
  std::size_t bytes = 0;

  std::byte* data() { return reinterpret_cast<std::byte*>(this) + kHeader; }

  static Ref<Storage> make(std::size_t bytes) {
    auto* s = new (pool_allocate(kHeader + bytes)) Storage;
    s->bytes = bytes;
    return Ref<Storage>(s);
  }
  static void destroy(Storage* s) {
    const std::size_t total = kHeader + s->bytes;
    s->~Storage();
    pool_free(s, total);
  }

 private:
  static constexpr std::size_t kHeader = 64;
};

}  // namespace heed::autograd
