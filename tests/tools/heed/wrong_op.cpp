// An op whose derivative can contain an error. A second build of heed, heed_wrong_op, contains the
// op, so that a test can check that `heed gradcheck` detects the error. The environment variable
// HEED_WRONG_OP selects the error: sign, or wrong_shape (the gradient of w has all rows). If
// HEED_WRONG_OP is not set, the op is correct.
#include <cstdlib>
#include <string_view>

#include "autograd/autograd.h"

namespace {

using namespace heed::autograd;

// Returns true if HEED_WRONG_OP is `name`.
bool fault(std::string_view name) {
  const char* selected = std::getenv("HEED_WRONG_OP");
  return selected && selected == name;
}

Tensor wrong_op(const Tensor& x, const Tensor& w);

Samples samples(SampleGen& g) {
  const auto f = [](Args t) { return wrong_op(t[0], t[1]); };
  return {{"rows", f, {g.normal({2, 3}), g.normal({3})}},
          {"one row", f, {g.normal({1, 2}), g.normal({2})}}};
}
const Op kWrongOp({.name = "wrong_op", .saves = Saves::kInputs, .samples = samples});

// The check of a correct op, abs, whose sample contains a kink: abs is not differentiable at 0.
const Check kKinked("kinked", [](SampleGen&) -> Samples {
  return {{"at 0", [](Args t) { return abs(t[0]); }, {from_data(std::vector{0.0, 1.0}, {2})}}};
});

// Returns x^2 w + x, for x of shape [rows, columns] and w of shape [columns].
Tensor wrong_op(const Tensor& x, const Tensor& w) {
  Tensor y;
  {
    const NoGrad guard;
    y = x * x * w + x;
  }
  return record(kWrongOp, {x, w}, y, [](const Vjp& v) -> Grads {
    const Tensor &u = v.input(0), &a = v.input(1);
    const Tensor dx = v.grad * (2.0 * u * a + 1.0), da = v.grad * u * u;
    return {fault("sign") ? -dx : dx, fault("wrong_shape") ? da : sum_to(da, a.shape())};
  });
}

}  // namespace
