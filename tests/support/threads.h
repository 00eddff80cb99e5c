// Sets the number of threads in tests.
#pragma once

#include "autograd/base/parallel.h"

namespace heed::autograd::testing {

/// Sets the number of threads of heed. The destructor restores the previous number.
class Threads {
 public:
  explicit Threads(int n = num_threads()) { set_num_threads(n); }
  Threads(const Threads&) = delete;
  ~Threads() { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

}  // namespace heed::autograd::testing
