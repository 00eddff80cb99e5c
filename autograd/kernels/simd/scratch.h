// Temporary memory for a kernel, allocated from the memory pool.
#pragma once

#include <cstddef>

#include "autograd/base/index.h"
#include "autograd/base/pool.h"

namespace heed::autograd::kernels {

/// An array of n uninitialized values, aligned to 64 bytes. The destructor frees it.
template <class T>
class Scratch {
 public:
  /// Allocates the array. Throws std::bad_alloc if the allocation fails.
  explicit Scratch(Index n)
      : bytes_(std::size_t(n) * sizeof(T)), data_(static_cast<T*>(pool_allocate(bytes_))) {}
  ~Scratch() { pool_free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  /// Returns a pointer to the first value.
  T* get() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

}  // namespace heed::autograd::kernels
