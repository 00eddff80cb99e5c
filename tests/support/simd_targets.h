// Kernels on every SIMD target that is compiled in and that this machine can run. Bits differ
// between targets, so compare with an oracle on each.
#pragma once

#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// The target of tests that choose none: HEED_SIMD, or the best.
inline void force_default_target() {
  const char* name = std::getenv("HEED_SIMD");
  kernels::force_simd_target(name ? name : "");
}

/// Until the end of the scope, this target.
class OnTarget {
 public:
  explicit OnTarget(const std::string& name) { kernels::force_simd_target(name); }
  ~OnTarget() { force_default_target(); }
  OnTarget(const OnTarget&) = delete;
};

/// f() on each SIMD target, for kernels called by name. Not while another thread runs kernels.
template <class F>
void for_each_simd_target(F f) {
  int ran = 0;
  for (const std::string& name : kernels::simd_targets()) {
    if (name == "scalar") continue;
    const OnTarget here(name);
    CAPTURE(name);
    f();
    ++ran;
  }
  CHECK(ran >= 1);
}

}  // namespace heed::autograd::testing
