// Tests of errors during training. An error names the op that makes the first NaN. After an error,
// weights and random streams are those before the failed step.

#include "autograd/base/files.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using Catch::Matchers::StartsWith;

RunConfig tiny_mlp_run() {
  RunConfig c = tiny_run();
  c.model.mlp = true;
  return c;
}

std::vector<double> weights_of(const Trainer& t) {
  std::vector<double> all;
  for (const NamedTensor& p : parameters(t.model))
    for (const double e : to(p.tensor.detach(), float64).to_vector<double>()) all.push_back(e);
  return all;
}

void set(const Tensor& weight, const Tensor& x) {
  const NoGrad guard;
  copy_(weight, x);
}

TEST_CASE("a step that is not finite names the op in its module, and changes nothing") {
  Trainer t(tiny_mlp_run()), twin(tiny_mlp_run());
  t.step(), twin.step();
  const Tensor weight = t.model.blocks.back().mlp->up.weight;
  const Tensor kept = contiguous(weight.detach() * 1.0);
  set(weight, full(weight.shape(), 1e38, weight.dtype()));
  const std::vector<double> before = weights_of(t);
  const std::string error = error_of_step(t);
  CHECK_THAT(error, Contains("the loss of step 2 is"));
  const std::string block = "blocks." + std::to_string(t.model.blocks.size() - 1);
  CHECK_THAT(error, Contains(" not finite: " + block + ".mlp: linear [8, 4, 64] float32 is"));
  CHECK(weights_of(t) == before);
  CHECK(t.steps_done == 1);
  set(weight, kept);
  CHECK(t.step().loss == twin.step().loss);  // takes the same batch and dropout as twin
  CHECK(weights_of(t) == weights_of(twin));
}

TEST_CASE("a gradient that is not finite names the vjp that made it") {
  Trainer t(tiny_mlp_run());
  // The values of the hidden layer are 1e38. The weights of `down` are 0, so the output is finite.
  // The gradient with respect to these weights is a product with 1e38 and is not finite.
  MLP& mlp = *t.model.blocks[0].mlp;
  set(mlp.up.bias, full(mlp.up.bias.shape(), 1e38, float32));
  set(mlp.down.weight, zeros(mlp.down.weight.shape(), float32));
  set(t.model.head->weight, t.model.head->weight.detach() * 1e4);
  const std::vector<double> before = weights_of(t);
  const std::string error = error_of_step(t);
  CHECK_THAT(error, StartsWith("AdamW: the gradient of blocks.0.down.weight [16, 64] is "));
  CHECK_THAT(error, Contains("; the first result that is not finite: blocks.0.mlp: backward "));
  CHECK(weights_of(t) == before);
}

TEST_CASE("an evaluation that is not finite names the op") {
  Trainer t(tiny_mlp_run());
  CHECK(t.evaluate(false).trouble.empty());
  set(t.model.head->weight, full(t.model.head->weight.shape(), 3e38, float32));
  const Evaluation e = t.evaluate(false);
  CHECK(!std::isfinite(e.loss));
  CHECK_THAT(e.trouble, Contains("linear [16, 8, "));
}

}  // namespace
