// bfloat16 products by every way that this machine has: bits differ between them, so compare with
// an oracle on each.
#pragma once

#include <string>

#include "autograd/kernels/simd/gemm_bf16.h"
#include "tests/support/simd_targets.h"

namespace heed::autograd::testing {

/// Until the end of the scope, this way.
class OnBf16Way {
 public:
  explicit OnBf16Way(const std::string& name) { kernels::force_bf16_way(name); }
  ~OnBf16Way() { kernels::force_bf16_way(""); }
  OnBf16Way(const OnBf16Way&) = delete;
};

/// f() by each way, on the best SIMD target. Not while another thread runs kernels.
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
