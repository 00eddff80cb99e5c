// HEED_SIMD=TARGET heed_tests: every test on that SIMD target.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // listeners, for version 2
#include "tests/support/simd_targets.h"

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

class ForcedTarget : public Listener {
 public:
  using Listener::Listener;
  void testRunStarting(const Catch::TestRunInfo&) override {
    heed::autograd::testing::force_default_target();
  }
};
CATCH_REGISTER_LISTENER(ForcedTarget)

}  // namespace
