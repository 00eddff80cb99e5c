// What a user of the library gets, and what not: `using namespace heed::autograd` and
// `using namespace heed::nn` leave common names of functions to the user, and a Tensor's internals
// are closed.
//
// The user's functions are called here without qualification, with arguments of heed's own types.
// Argument-dependent lookup adds heed::autograd's (heed::nn's) functions of the same name to such
// calls, so a user's max(Tensor, Tensor) or split(Tensor, int) competes with the op of that name:
// no library can exclude that for the names of its ops.

#include "nn/lab.h"
#include "tests/support/catch.h"

namespace user {

using namespace heed::autograd;
using namespace heed::nn;

// A function of the user's that takes anything and returns its own name.
#define OF_A_USER(name)               \
  template <class... Given>           \
  std::string name(const Given&...) { \
    return #name;                     \
  }
OF_A_USER(check)
OF_A_USER(fail)
OF_A_USER(join)
OF_A_USER(map)
OF_A_USER(zip)
OF_A_USER(unify)
OF_A_USER(lift)
OF_A_USER(difference)
OF_A_USER(run_check)
#undef OF_A_USER

// Calls each with the arguments that heed's own helpers of these names take.
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

template <class T>
concept OpensItsNode = requires(const T& x) {
  x.node();
};
template <class T>
concept OpensItsStorage = requires(const T& x) {
  x.storage();
};
template <class T>
concept SetsItsNode = requires(const T& x) {
  x.set_node(nullptr);
};
template <class T>
concept MakesViews = requires(const T& x) {
  x.view(x.layout());
};
template <class T>
concept CountsItsOwners = requires(const T& x) {
  x.is_sole_owner();
};
template <class T>
concept NamesItsImpl = requires {
  typename T::Impl;
};

using heed::autograd::Tensor;
static_assert(!OpensItsNode<Tensor> && !OpensItsStorage<Tensor> && !SetsItsNode<Tensor>);
static_assert(!MakesViews<Tensor> && !CountsItsOwners<Tensor> && !NamesItsImpl<Tensor>);
static_assert(!std::is_constructible_v<Tensor, heed::autograd::DType, heed::autograd::Layout,
                                       heed::autograd::Ref<heed::autograd::Storage>>);

TEST_CASE("a user's functions are called by their own names") {
  CHECK(user::call_all() == "checkfailjoinmapmapzipunifyliftdifferencerun_check");
}

}  // namespace
