// Tests of the shapes of activations.
#include "nn/train/cost/model_cost.h"

#include "autograd/autograd.h"
#include "nn/layers/probe.h"
#include "tests/support/catch.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::NoGrad;

TEST_CASE("site_shapes() states the shapes that a probe records") {
  RunConfig c = tiny_run();
  c.model.attention.d_head = 6, c.model.attention.d_value = 5;
  const Trainer t(c);
  const NoGrad guard;
  Probe probe;
  for (const auto& [site, shape] : site_shapes(t.model))
    if (site != "inputs" && site != "logits") probe.record(site);
  const Tensor inputs = heed::autograd::zeros({1, c.model.context}, heed::autograd::int64);
  const Tensor logits = t.model(inputs, {.probe = &probe});
  for (const auto& [site, shape] : site_shapes(t.model)) {
    CAPTURE(site);
    CHECK(shape == (site == "inputs"   ? inputs
                    : site == "logits" ? logits
                                       : probe.value(site))
                       .shape());
  }
}

}  // namespace
