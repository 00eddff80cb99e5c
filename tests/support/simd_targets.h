// Runs tests on every compiled SIMD target that this machine supports. Results of two targets
// may differ in bits, so a test must compare each with an oracle.
#pragma once

#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// Calls f() on each SIMD target except "scalar". It is for tests that call kernels directly. While
/// it runs, no other thread may run kernels.
template <class F>
void for_each_simd_target(F f) {
  int ran = 0;
  for (const std::string& name : kernels::simd_targets()) {
    if (name == "scalar") continue;
    const kernels::OnSimdTarget here(name);
    CAPTURE(name);
    f();
    ++ran;
  }
  CHECK(ran >= 1);
}

}  // namespace heed::autograd::testing
