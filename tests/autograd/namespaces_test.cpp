// Tests that users can define functions with common names after `using namespace heed::autograd`
// and `using namespace heed::nn`.
//
// The tests call functions of a user without qualification, with arguments of heed's types.
// Argument-dependent lookup then also finds functions of heed that have the name of the user's
// function. So if a user defines max(Tensor, Tensor) or split(Tensor, int), overload resolution
// also considers the op of that name. No library can prevent this for the names of its ops.

#include "nn/lab.h"
#include "tests/support/catch.h"

namespace user {

using namespace heed::autograd;
using namespace heed::lab;

// Defines a function of a user that accepts any arguments and returns its own name.
#define USER_FUNCTION(name)               \
  template <class... Arguments>           \
  std::string name(const Arguments&...) { \
    return #name;                         \
  }
USER_FUNCTION(check)
USER_FUNCTION(fail)
USER_FUNCTION(join)
USER_FUNCTION(map)
USER_FUNCTION(zip)
USER_FUNCTION(unify)
USER_FUNCTION(lift)
USER_FUNCTION(difference)
USER_FUNCTION(run_check)
#undef USER_FUNCTION

// Calls each function with arguments that heed's internal functions of the same name would accept.
std::string call_all() {
  Tensor x, y;
  const Shape shape;
  const auto f = [](auto v) { return v; };
  const auto g = [](auto v, auto) { return v; };
  return check(true, "op", shape, x.defined()) + fail("op", shape) +
         join(std::vector<std::string>{}) + map("op", x, f) + map(x, f) + zip("op", x, y, g) +
         unify("op", x, y) + lift("op", x) + difference(x, y) + run_check(x, y, shape);
}

}  // namespace user

namespace {

TEST_CASE("calls of a user's functions are not replaced by functions of heed") {
  CHECK(user::call_all() == "checkfailjoinmapmapzipunifyliftdifferencerun_check");
}

}  // namespace
