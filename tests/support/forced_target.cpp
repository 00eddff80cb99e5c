// Runs all tests on the SIMD target that the environment variable HEED_SIMD names. If
// HEED_SIMD_OTHER is also set and HEED_SIMD names the best target, the program skips all tests,
// because they run on the best target by default. CI uses this.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // Catch2 version 2 then declares listeners
#include <cstdio>

#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"

namespace {

namespace kernels = heed::autograd::kernels;

#if __has_include(<catch2/catch_all.hpp>)
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

class ForcedTarget : public Listener {
 public:
  using Listener::Listener;
  void testRunStarting(const Catch::TestRunInfo&) override {
    const char* name = std::getenv("HEED_SIMD");
    if (name && std::getenv("HEED_SIMD_OTHER") && name == kernels::simd_targets()[0]) {
      std::printf("skipped: %s is what the other tests run on\n", name);
      std::exit(0);
    }
    kernels::force_simd_target(name ? name : "");
  }
};
CATCH_REGISTER_LISTENER(ForcedTarget)

}  // namespace
