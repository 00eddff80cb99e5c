// Tests of the progress lines of `heed train`: their contents, and the limit of 80 columns.
#include "tests/support/catch.h"
#include "tests/support/runs.h"
#include "tools/heed/report/output.h"
#include "tools/heed/train/train_run.h"

namespace {

using namespace heed;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepState state(Index step, Index steps, double loss, double optimal) {
  return {{.step = step, .loss = loss, .lr = 3e-3, .grad_norm = 0.5234}, steps, optimal, 61234, 21};
}

TEST_CASE("the lines of steps and evaluations have loss, distance, lr, norm, speed and time left") {
  CHECK(step_line(state(120, 400, 1.2345, 1.2174)) ==
        "120/400  loss 1.2345 (+0.0171)  lr 3.0e-3  grad 0.5234  21s left  61.2k tok/s");
  CHECK(step_line(state(120, 400, 1.2345, kNan)) ==
        "120/400  loss 1.2345  lr 3.0e-3  grad 0.5234  21s left  61.2k tok/s");
  lab::TaskInfo info;
  info.accuracy = "repeat tokens right";
  lab::Evaluation e;
  e.loss = 1.2, e.optimal = 1.25, e.accuracy = 0.982;
  CHECK(evaluation_line(e, kNan, info, state(120, 400, 1, 1)) ==
        "step  120/400  eval_loss 1.2000 (-0.0500)  repeat tokens right 98.2 %  21s left");
  e.optimal = 0, info.accuracy = "held-out sums right";
  CHECK(evaluation_line(e, 0.0123, info, state(120, 2500, 1, 1)) ==
        "step  120/2500  eval_loss 1.2000  train_loss 0.0123  held-out sums right 98.2 %");
}

TEST_CASE("every line has at most 80 columns, and contains the loss and the norm") {
  const double losses[] = {0, 1.5, 99.99, 12345.678, 1e300, kNan, HUGE_VAL};
  for (const Index steps : {1LL, 400LL, 1'000'000LL, 1'000'000'000LL})
    for (const double loss : losses)
      for (const double optimal : {0.0, 1.2, kNan})
        for (const double norm : {0.0, 3e-12, 0.5, 1e300, HUGE_VAL})
          for (const double left : {0.1, 3599.0, 1e7, 1e12, kNan})
            for (const double rate : {0.0, 999.6, 1.23e6, 9.99e15}) {
              StepState s{{steps, loss, 1.25e-7, norm}, steps, optimal, rate, left};
              const std::string line = step_line(s);
              INFO(line);
              CHECK(line.size() <= 80);
              CHECK(line.find("  loss ") != std::string::npos);
              CHECK(line.find("  grad ") != std::string::npos);
              lab::TaskInfo info;
              info.accuracy = "tokens after the separator right";
              lab::Evaluation e;
              e.loss = loss, e.accuracy = 1;
              if (std::isfinite(optimal)) e.optimal = optimal;
              CHECK(evaluation_line(e, norm, info, s).size() <= 80);
            }
}

TEST_CASE("a duration takes at most 7 characters") {
  CHECK(short_duration(0.25) == "0.2s");
  CHECK(short_duration(59.4) == "59s");
  CHECK(short_duration(200) == "3m20s");
  CHECK(short_duration(7500) == "2h05m");
  CHECK(short_duration(86400 * 12.2) == "12d4h");
  for (double s = 0.01; s < 1e300; s *= 1.7) CHECK(short_duration(s).size() <= 7);
  CHECK(short_duration(kNan) == "?");
}

TEST_CASE("a sample continues half of the task's example, and training does not change") {
  lab::Trainer plain(lab::testing::tiny_run()), sampled(lab::testing::tiny_run());
  const std::string line = sample_line(sampled);
  CHECK(line == sample_line(sampled));
  const lab::Vocabulary& symbols = sampled.task->info().vocabulary;
  CHECK(symbols.encode(line).size() == 9);  // the tokens of a sequence and the last target
  nn::Generator g(1);
  const auto example = sampled.task->example(g).inputs.to_vector<std::int64_t>();
  CHECK(line.starts_with(symbols.decode({example.begin(), example.begin() + 4})));
  plain.step(), sampled.step();
  CHECK(lab::hash_of(plain.snapshot()) == lab::hash_of(sampled.snapshot()));
}

}  // namespace
