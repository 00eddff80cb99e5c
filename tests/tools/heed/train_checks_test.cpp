// What --dry-run refuses.
#include "tools/heed/train/train_checks.h"

#include "tests/support/catch.h"

namespace {

using namespace heed;

TEST_CASE("a run that needs more memory than is free is refused with both numbers") {
  CHECK(memory_shortage(1.2e9, 1.2e9) == "");
  CHECK(memory_shortage(1e15, HUGE_VAL) == "");  // what is free is not known
  CHECK_THAT(memory_shortage(1.3e9, 1.2e9),
             Contains("needs about 1.3 GB; 1.2 GB of memory are free here"));
}

}  // namespace
