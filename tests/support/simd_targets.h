// Kernels on every SIMD target that is compiled in and that this machine can run. Bits differ
// between targets, so compare with an oracle on each.
#pragma once

#include <cstdint>
#include <string>

#include "autograd/kernels/simd/simd.h"
#include "autograd/kernels/simd/targets.h"
#include "hwy/targets.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// f() with run-time dispatch set to each target in turn. Not while another thread runs kernels.
template <class F>
void for_each_simd_target(F f) {
  struct Restore {
    ~Restore() { choose(0); }  // 0: the machine's best
    static void choose(std::int64_t target) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().DeInit();
    }
  } const restore;
  int ran = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    restore.choose(target);
    const std::string name = kernels::simd_target();
    if (name != hwy::TargetName(target)) continue;  // sanitized builds compile one target only
    CAPTURE(name);
    f();
    ++ran;
  }
  CHECK(ran >= 1);
}

}  // namespace heed::autograd::testing
