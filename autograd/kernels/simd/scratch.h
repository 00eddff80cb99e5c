// Memory of a kernel call, from the pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/base/pool.h"

namespace heed::autograd::kernels {

/// n uninitialized values, aligned to 64 bytes, until the end of the scope.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : bytes_(std::size_t(n) * sizeof(T)), data_(static_cast<T*>(pool_allocate(bytes_))) {}
  ~Scratch() { pool_free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

}  // namespace heed::autograd::kernels
