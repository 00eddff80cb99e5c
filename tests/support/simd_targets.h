// Runs tests on every compiled SIMD target that this machine supports. Targets differ in bits, so a
// test must compare each with an oracle.
#pragma once

#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// Selects the default target of tests: HEED_SIMD, or the best if that is not set.
inline void force_default_target() {
  const char* name = std::getenv("HEED_SIMD");
  kernels::force_simd_target(name ? name : "");
}

/// Selects a target until the end of the scope.
class OnTarget {
 public:
  explicit OnTarget(const std::string& name) { kernels::force_simd_target(name); }
  ~OnTarget() { force_default_target(); }
  OnTarget(const OnTarget&) = delete;
};

/// Calls f() on each SIMD target except "scalar". It is for tests that call kernels directly. No
/// other thread may run kernels meanwhile.
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
