// Tests of the learning rates of schedules, which are compared with values computed by hand.
#include "nn/optim/schedule.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::nn;

TEST_CASE("schedules equal those of nanoGPT") {
  const auto at = [](Decay decay, Index step) {
    return Schedule{decay, 1.0, 0.1, 9, 109}.lr_at(step);
  };
  for (const Decay decay : {Decay::kConstant, Decay::kLinear, Decay::kCosine}) {
    CHECK(at(decay, 0) == Approx(0.1));
    CHECK(at(decay, 4) == Approx(0.5));
    CHECK(at(decay, 8) == Approx(0.9));
    CHECK(at(decay, 9) == 1);
  }
  CHECK(at(Decay::kConstant, 1000) == 1);
  CHECK(at(Decay::kLinear, 59) == Approx(0.55));
  CHECK(at(Decay::kLinear, 84) == Approx(0.1 + 0.9 * 0.25));
  CHECK(at(Decay::kCosine, 59) == Approx(0.55));
  CHECK(at(Decay::kCosine, 34) == Approx(0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
  for (const Decay decay : {Decay::kLinear, Decay::kCosine})
    for (const Index step : {109, 110, 100000}) CHECK(at(decay, step) == 0.1);
  CHECK(Schedule{Decay::kCosine, 1.0, 0.1, 0, 10}.lr_at(0) == 1);      // no warm-up steps
  CHECK(Schedule{Decay::kCosine, 1.0, 0.1, 10, 10}.lr_at(10) == 0.1);  // only warm-up steps
}

TEST_CASE("wsd warms up, stays constant, and decays linearly at the end") {
  const Schedule s{.decay = Decay::kWsd,
                   .lr = 1,
                   .min_lr = 0.2,
                   .warmup_steps = 4,
                   .total_steps = 20,
                   .decay_steps = 8};
  CHECK(s.lr_at(0) == Approx(0.2));
  for (Index step = 4; step < 12; ++step) CHECK(s.lr_at(step) == 1);
  CHECK(s.lr_at(12) == 1);
  CHECK(s.lr_at(16) == Approx(0.6));
  CHECK(s.lr_at(19) == Approx(0.3));
  CHECK(s.lr_at(20) == 0.2);
  CHECK(s.lr_at(99) == 0.2);
  // decay_steps is larger than total_steps, so the decay starts after the warm-up.
  const Schedule long_decay{
      .decay = Decay::kWsd, .lr = 1, .warmup_steps = 4, .total_steps = 8, .decay_steps = 100};
  CHECK(long_decay.lr_at(3) < 1);
  CHECK(long_decay.lr_at(4) == 1);
  CHECK(long_decay.lr_at(6) == Approx(0.5));
}

}  // namespace
