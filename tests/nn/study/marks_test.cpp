// Tests of marks: every kind of row, the floor, and the agreement of predictions with effects.
#include "nn/study/marks.h"

#include <cmath>

#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::nn;

EffectRow row(double effect, double predicted, std::optional<double> suffices = {},
              double error = 0.001) {
  const auto of = [&](double x) { return Effect{x, error, std::abs(x), 32}; };
  return {of(effect), predicted, suffices ? std::optional(of(*suffices)) : std::nullopt};
}

TEST_CASE("a mark compares effect, prediction and what other heads replace") {
  const double t = 0.1;
  CHECK(mark_of(row(-1, -0.9, -1), t) == Mark::kNone);
  CHECK(mark_of(row(-1, 0.05, -1), t) == Mark::kMissed);
  CHECK(mark_of(row(0.05, -1, 0.01), t) == Mark::kPhantom);
  CHECK(mark_of(row(0.05, -1), t) == Mark::kPhantom);  // a cell
  CHECK(mark_of(row(0.5, -0.5, 1), t) == Mark::kReversed);
  CHECK(mark_of(row(0.05, 0.01, 3), t) == Mark::kRedundant);
  CHECK(mark_of(row(0.05, 2, -3), t) == Mark::kRedundant);
  CHECK(mark_of(row(0.05, 2, -3, 1.6), t) == Mark::kPhantom);  // suffices is uncertain
  CHECK(mark_of(row(0.05, -0.05, 0.05), t) == Mark::kSmall);
  CHECK(mark_of(row(0.1, 0.1), t) == Mark::kNone);  // the floor itself counts
  // A prediction below the floor is not missed if it is right within a factor of 3.
  CHECK(mark_of(row(0.15, 0.09), t) == Mark::kNone);
  CHECK(mark_of(row(0.09, 0.15), t) == Mark::kNone);
  CHECK(mark_of(row(0.15, -0.09), t) == Mark::kMissed);
  CHECK(mark_of(row(-1, -0.25), t) == Mark::kFactor);
  CHECK(mark_of(row(std::nan(""), 0.5), t) == Mark::kPhantom);
  CHECK(mark_text(row(-1, -0.9), t).empty());
  CHECK(mark_text(row(-1, -0.25), t) == "x0.25");
  CHECK(mark_text(row(-1, -3.5), t) == "x3.5");
  CHECK(mark_text(row(-1, 1), t) == "reversed");
  CHECK(mark_text(row(0, 0), t) == "-");
}

TEST_CASE("the floor is the largest of its three parts") {
  const double largest = largest_effect({row(-1, 0, 4), row(3, 0)});
  CHECK(largest == 4);
  CHECK(largest_effect({}) == 0);
  CHECK(floor_of(row(1, 1), largest, 0.05) == 0.05 * 4);
  CHECK(floor_of(row(1, 1), largest, 0.3) == 0.3);
  CHECK(floor_of(row(1, 1, {}, 0.2), largest, 0.05) == 0.4);
  CHECK(floor_of(row(1, 1, {}, std::nan("")), largest, 0.05) == 0.05 * 4);  // one sequence
  CHECK(smallest_effect({Objective::kMargin}) == 0.05);
  CHECK(smallest_effect({Objective::kLoss}) == 0.01);
}

TEST_CASE("agreement is Spearman's correlation, and the median factor of rows with an effect") {
  CHECK(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 1000}) == Approx(1));
  CHECK(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}) == Approx(-1));
  // The ranks are 0, 1.5, 1.5, 3 and 2, 0, 3, 1.
  CHECK(rank_correlation({1, 2, 2, 5}, {3, 1, 4, 2}) == Approx(-1.5 / std::sqrt(4.5 * 5)));
  CHECK(std::isnan(rank_correlation({1, 2}, {1, 2})));
  CHECK(std::isnan(rank_correlation({1, 1, 1}, {1, 2, 3})));
  const std::vector<EffectRow> rows{row(2, 0), row(-1, 0), row(4, 0), row(0.01, 0)};
  const Agreement a = agreement(rows, {1, -0.25, 0.4, 7}, 0.05);
  CHECK(a.rows == 3);
  CHECK(a.factor == Approx(0.25));
  // The median of an even number of factors is the mean of the two in the middle.
  CHECK(agreement({row(1, 0), row(1, 0), row(1, 0), row(1, 0)}, {4, -1, 0.5, 1.5}, 0.05).factor ==
        Approx(1));
  CHECK(agreement({row(0, 1)}, {1}, 0.05).rows == 0);
}

}  // namespace
