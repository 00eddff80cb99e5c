// Tests of check_parameters() on a correct model, and on a model in which one op has a wrong
// gradient.
#include "nn/lab/train/checks/check_parameters.h"

#include "tests/support/catch.h"
#include "tests/support/mutate_gradients.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;

TEST_CASE("check_parameters names exactly the tensors whose gradient is wrong") {
  Generator g(1);
  const Transformer model({.vocab = 3,
                           .layers = 1,
                           .context = 2,
                           .attention = {.d_model = 4, .heads = 1, .dropout = 0.5}},
                          g);
  const Batch batch = make_batch({{.inputs = {0, 1}, .targets = {1, 2}, .counted = {true, true}}});
  const GradcheckOptions how{.order = 2, .difference_entries = 0};
  Index calls = 0;
  const ProgressCallback count = [&](Index done, Index total) {
    CHECK(done == calls++);
    CHECK(total == std::ssize(parameters(model)));
  };
  for (const CheckedParameter& p : check_parameters(model, batch, how, 0, count)) {
    CAPTURE(p.name, p.failure);
    CHECK(p.failure.empty());
    CHECK(p.entries == 1);
    CHECK(p.digits[int(Oracle::kDual)].value() > 10);
    CHECK(!p.digits[int(Oracle::kDifferences)]);
  }
  CHECK(calls == std::ssize(parameters(model)));  // each tensor was checked once
  const Float32Report single = check_float32(model, batch);
  CHECK(single.ok);
  CHECK(single.entries == 1 + count_parameters(model));
  CHECK(float32_check_seconds(model, batch) == 1);

  const MutateGradients wrong([](const Op& op, std::size_t, const Tensor& x, const Shape&) {
    return op.name() == "index_select" ? 2.0 * x : x;
  });
  for (const CheckedParameter& p : check_parameters(model, batch, how, 0))
    CHECK(p.failure.empty() == (p.name != "tok.weight"));
}

}  // namespace
