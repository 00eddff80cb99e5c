// Tests of nearest(), which errors use to suggest a name for an unknown task, key or site.
#include "nn/lab.h"
#include "tests/support/catch.h"

using namespace heed::autograd;
using namespace heed::lab;

TEST_CASE("nearest() prefers a prefix match and then the smallest edit distance") {
  REQUIRE(edit_distance("kitten", "sitting") == 3);
  REQUIRE(edit_distance("", "abc") == 3);
  REQUIRE(edit_distance("abc", "") == 3);
  REQUIRE(edit_distance("same", "same") == 0);
  REQUIRE(nearest("ind", task_names()) == "induction");
  REQUIRE(nearest("dick", task_names()) == "dyck");
  REQUIRE(nearest("reverse", {"reversed", "reverse"}) == "reversed");
  REQUIRE(nearest("x", {}).empty());
}
