// What --dry-run refuses.
#include "tools/heed/train/train_checks.h"

#include "tests/support/catch.h"
#include "tools/heed/report/output.h"

namespace {

using namespace heed;

TEST_CASE("a run that needs more memory than is free is refused with both numbers") {
  check_fit(1.2e9, 1.2e9);
  check_fit(1e15, HUGE_VAL);  // nobody knows what is free
  CHECK_THROWS_AS(check_fit(1.3e9, 1.2e9), UsageError);
  CHECK_THROWS_WITH(check_fit(1.3e9, 1.2e9),
                    Contains("needs about 1.3 GB; 1.2 GB of memory are free here"));
}

}  // namespace
