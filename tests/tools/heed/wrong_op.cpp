// One op whose derivative is wrong on demand, in the list of gradient checks of a second build of
// the program: proof that `heed gradcheck` can fail. HEED_WRONG_OP = sign, factor, dropped_term,
// missing_unbroadcast (one row where the rows must be summed) or wrong_shape (all of them) chooses
// the fault; unset, the op is right.
#include <cstdlib>
#include <string_view>

#include "autograd/autograd.h"

namespace {

using namespace heed::autograd;

bool fault(std::string_view name) {
  const char* chosen = std::getenv("HEED_WRONG_OP");
  return chosen && chosen == name;
}

Tensor wrong_op(const Tensor& x, const Tensor& w);

// What a report must escape, and what XML cannot hold.
constexpr const char* kOddName = "a<b & \"c\">]]> \x01\xff";

Samples samples(SampleGen& g) {
  const auto f = [](Args t) { return wrong_op(t[0], t[1]); };
  return {{"rows", f, {g.normal({2, 3}), g.normal({3})}},
          {kOddName, f, {g.normal({1, 2}), g.normal({2})}}};
}
const Op kWrongOp({.name = "wrong_op", .saves = Saves::kInputs, .samples = samples});

// Right, but given its kink.
const Check kKinked("kinked", [](SampleGen&) -> Samples {
  return {{"at 0", [](Args t) { return abs(t[0]); }, {from_data(std::vector{0.0, 1.0}, {2})}}};
});

// y = x^2 w + x: x [rows, columns], w [columns]
Tensor wrong_op(const Tensor& x, const Tensor& w) {
  Tensor y;
  {
    const NoGrad guard;
    y = x * x * w + x;
  }
  return record(kWrongOp, {x, w}, y, [](const Vjp& v) -> Grads {
    const Tensor &u = v.input(0), &a = v.input(1);
    Tensor dx = v.grad * u * a * (fault("factor") ? 1.0 : 2.0);
    if (!fault("dropped_term")) dx = dx + v.grad;
    if (fault("sign")) dx = -dx;
    const Tensor da = v.grad * u * u;
    if (fault("wrong_shape")) return {dx, da};
    return {dx, fault("missing_unbroadcast") ? select(da, 0, 0) : sum_to(da, a.shape())};
  });
}

}  // namespace
