// Tests that run_cost() does not change the run. memory_test.sh and times_test.sh in
// tests/tools/heed/ compare its predictions with measured runs.
#include "nn/train/cost/run_cost.h"

#include "autograd/autograd.h"
#include "nn/layers/probe.h"
#include "nn/train/cost/model_cost.h"
#include "tests/support/catch.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::NoGrad;
using heed::autograd::NumericError;

const auto kNoPictures = [] {};

void fill(const Trainer& t, const std::string& kind, double value) {
  const NoGrad guard;
  for (const NamedTensor& p : heed::nn::parameters(t.model))
    if (p.name.ends_with(kind)) copy_(p.tensor, heed::autograd::full(p.tensor.shape(), value));
}

TEST_CASE("predicting the cost of a run does not change the run") {
  const auto optimizer = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kSGD);
  RunConfig c = tiny_run();
  c.optimizer = optimizer, c.clip = 0, c.check_invariants = 5;
  Trainer t(c);
  t.step();
  fill(t, "bias", -0.0);  // an update with learning rate 0 may change the sign of -0
  const auto before = hash_of(t.snapshot());
  const RunCost cost = run_cost(t, kNoPictures, HUGE_VAL);
  CHECK((hash_of(t.snapshot()) == before));
  CHECK(cost.bytes > 1e6);
  CHECK(cost.seconds_per_step > 0);
  CHECK(cost.seconds > cost.seconds_per_step * double(c.steps));
}

TEST_CASE("a gradient that is not finite throws NumericError, and weights do not change") {
  RunConfig c = tiny_run();
  Trainer t(c);
  fill(t, "weight", HUGE_VAL);
  const auto before = hash_of(t.snapshot());
  CHECK_THROWS_AS(run_cost(t, kNoPictures, HUGE_VAL), NumericError);
  CHECK((hash_of(t.snapshot()) == before));
}

TEST_CASE("the time of a run that does not fit into memory is NaN") {
  Trainer t(tiny_run());
  const RunCost cost = run_cost(t, kNoPictures, 1024);
  CHECK(cost.bytes > 1e6);
  CHECK(std::isnan(cost.seconds_per_step));
  CHECK(std::isnan(cost.seconds));
}

TEST_CASE("passes that take too long are not measured, and the time has a lower bound") {
  Trainer t(tiny_run());
  const auto cost = [&](double longest) {
    return run_cost(t, kNoPictures, HUGE_VAL, reset_resident_peak(), longest);
  };
  const RunCost bound = cost(0), measured = cost(HUGE_VAL);
  CHECK(bound.bytes > 1e5);
  CHECK((std::isnan(bound.seconds) && std::isnan(bound.seconds_per_step)));
  CHECK((bound.least_seconds > 0 && bound.least_seconds < measured.seconds));
  CHECK(std::isnan(measured.least_seconds));
}

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

TEST_CASE("if the peak of memory cannot be reset, bytes are still those of a whole batch") {
  // The test is skipped with a sanitizer, which uses more memory, and in a container that does not
  // allow a reset of the peak.
  if (kSanitized || !reset_resident_peak()) return;
  RunConfig c = tiny_run();
  c.model.attention.d_model = 64, c.model.context = 64, c.batch = 256, c.eval_batch = 1,
  c.shards = 1;
  Trainer t(c);
  const auto bytes = [&](double available, bool can_reset) {
    return run_cost(t, kNoPictures, available, can_reset).bytes;
  };
  const double extrapolated = bytes(1024, true);
  // The peak is now that of half a batch, and measuring a quarter cannot lower it.
  CHECK(bytes(1024, false) > 0.9 * extrapolated);  // this is twice the bytes of half a batch
  CHECK(bytes(HUGE_VAL, false) == Approx(extrapolated).epsilon(0.15));
}

}  // namespace
