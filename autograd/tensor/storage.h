// Memory of tensors, with a reference count and a version that counts in-place writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "autograd/base/pool.h"

namespace heed::autograd {

/// Header of a block of memory from the pool. The data follow the header and are aligned to 64
/// bytes. Several tensors can share one Storage.
struct Storage {
  std::atomic<std::uint32_t> refs{0};  ///< reference count, for Ref
  std::uint32_t version = 0;           ///< number of in-place writes so far
  std::size_t bytes = 0;               ///< size of the data, without the header

  /// Returns the first byte of the data.
  std::byte* data() { return reinterpret_cast<std::byte*>(this) + kHeader; }

  /// Allocates a Storage with `bytes` uninitialized bytes. Throws std::bad_alloc if there is not
  /// enough memory.
  static Ref<Storage> make(std::size_t bytes) {
    auto* s = new (pool_allocate(kHeader + bytes)) Storage;
    s->bytes = bytes;
    return Ref<Storage>(s);
  }
  /// Frees the block. Ref calls this function when the last reference is gone.
  static void destroy(Storage* s) {
    const std::size_t total = kHeader + s->bytes;
    s->~Storage();
    pool_free(s, total);
  }

 private:
  static constexpr std::size_t kHeader = 64;
};

}  // namespace heed::autograd
