// The name that was meant: what errors about unknown tasks, keys and sites suggest.
#include "nn/lab.h"
#include "tests/support/catch.h"

using namespace heed::autograd;
using namespace heed::nn;

TEST_CASE("the nearest name, by edits and by beginnings") {
  REQUIRE(edit_distance("kitten", "sitting") == 3);
  REQUIRE(edit_distance("", "abc") == 3);
  REQUIRE(edit_distance("abc", "") == 3);
  REQUIRE(edit_distance("same", "same") == 0);
  REQUIRE(nearest("ind", task_names()) == "induction");
  REQUIRE(nearest("un", task_names()) == "urn");
  REQUIRE(nearest("reverse", {"reversed", "reverse"}) == "reversed");
  REQUIRE(nearest("x", {}).empty());
}
