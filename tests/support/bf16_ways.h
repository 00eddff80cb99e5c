// Runs tests with every implementation of bfloat16 products that this machine supports. The
// implementations differ in bits, so a test must compare each with an oracle.
#pragma once

#include <string>

#include "autograd/kernels/simd/gemm_bf16.h"
#include "tests/support/simd_targets.h"

namespace heed::autograd::testing {

/// Selects an implementation of bfloat16 products. The destructor selects the default again.
class OnBf16Way {
 public:
  explicit OnBf16Way(const std::string& name) { kernels::force_bf16_way(name); }
  ~OnBf16Way() { kernels::force_bf16_way(""); }
  OnBf16Way(const OnBf16Way&) = delete;
};

/// Calls f() with each implementation of bfloat16 products, on the best SIMD target. While it runs,
/// no other thread may run kernels.
template <class F>
void for_each_bf16_way(F f) {
  const OnTarget best("");
  for (const std::string& name : kernels::bf16_ways()) {
    const OnBf16Way here(name);
    CAPTURE(name);
    REQUIRE(kernels::bf16_way() == name);
    f();
  }
}

}  // namespace heed::autograd::testing
