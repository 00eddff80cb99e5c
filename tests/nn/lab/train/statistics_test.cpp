// Tests of means and standard errors over seeds.
#include "nn/lab/train/statistics.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::lab;

TEST_CASE("mean and standard error equal values computed by hand") {
  // The mean is 5, the sum of squared differences 32, and the variance 32/7.
  const MeanError m = mean_error({2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(m.n == 8);
  CHECK(m.mean == 5);
  CHECK(m.error == Approx(std::sqrt(32.0 / 7 / 8)));
  CHECK(finite_mean_error({1, NAN, 3}).n == 2);
  CHECK(finite_mean_error({1, NAN, 3}).mean == 2);
  CHECK(finite_mean_error({1, NAN, 3}).error == 1);
  CHECK(std::isnan(mean_error({1, NAN, 3}).mean));
  CHECK(mean_error({7}).mean == 7);
  CHECK(std::isnan(mean_error({7}).error));
  CHECK(std::isnan(mean_error({}).mean));
}

TEST_CASE("a mean curve has the steps at which every run has a value") {
  const StepSeries a{{0, 1}, {10, 2}, {20, 3}}, b{{0, 3}, {20, 5}, {30, 9}};
  const auto m = mean_series({&a, &b});
  REQUIRE((m.size() == 2 && m.contains(0) && m.contains(20)));
  CHECK(m.at(0).mean == 2);
  CHECK(m.at(20).mean == 4);
  CHECK(m.at(20).error == 1);
}

}  // namespace
