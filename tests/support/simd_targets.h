// Kernels on every SIMD target that is compiled in and that this machine can run. Bits differ
// between targets, so compare with an oracle on each.
#pragma once

#include <string>

#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// Until the end of the scope, this target.
class OnTarget {
 public:
  explicit OnTarget(const std::string& name) { kernels::force_simd_target(name); }
  ~OnTarget() { kernels::force_simd_target(""); }
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
