// HEED_SIMD=TARGET heed_tests: every test on that SIMD target. With HEED_SIMD_OTHER set, too, only
// if it is not the one that tests run on anyway: for CI.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // listeners, for version 2
#include <cstdio>

#include "tests/support/simd_targets.h"

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
    heed::autograd::testing::force_default_target();
  }
};
CATCH_REGISTER_LISTENER(ForcedTarget)

}  // namespace
