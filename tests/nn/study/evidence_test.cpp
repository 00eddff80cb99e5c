// Tests of judgements: every kind of row, the floor, and the agreement of predictions with effects.
#include "nn/study/evidence.h"

#include <cmath>

#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::nn;

Evidence row(double effect, std::optional<double> predicted, std::optional<double> suffices = {},
             double error = 0.001) {
  const auto of = [&](double x) { return Effect{x, error, 32}; };
  Evidence e{"", of(effect)};
  if (predicted) e.predictions = {{"gradient", of(*predicted)}};
  if (suffices) e.suffices = of(*suffices);
  return e;
}

TEST_CASE("a mark compares effect, prediction and what other heads replace") {
  const struct {
    Evidence evidence;
    const char* mark;
  } cases[] = {
      {row(-1, -0.9, -1), ""},
      {row(-1, 0.05, -1), "missed"},
      {row(0.05, -1, 0.01), "phantom"},
      {row(0.05, -1), "phantom"},  // a cell
      {row(0.5, -0.5, 1), "reversed"},
      {row(0.05, 0.01, 3), "redundant"},
      {row(0.05, 2, -3), "redundant"},
      {row(0.05, -0.05, 0.05), "-"},
      {row(0.1, 0.1), ""},  // the floor itself counts
      // A prediction below the floor is not missed if it is right within a factor of 3.
      {row(0.15, 0.09), ""},
      {row(0.09, 0.15), ""},
      {row(0.15, -0.09), "missed"},
      {row(-1, -0.25), "x0.25"},
      {row(-1, -3.5), "x3.5"},
      {row(-1, 1), "reversed"},
      {row(0, 0), "-"},
      {row(std::nan(""), 0.5), "phantom"},
      {row(1, {}), ""},  // no prediction
  };
  for (const auto& [evidence, mark] : cases) {
    CAPTURE(evidence.effect.mean, evidence.predicted());
    const auto text = [&](double smallest) {
      return mark_text(judge({evidence}, smallest, 0).rows[0]);
    };
    CHECK(text(0.1) == mark);
    CHECK(text(HUGE_VAL).empty());
  }
  CHECK(judge({row(0.05, 2, -3, 1.6)}, 0.1, 0).rows[0].mark == Mark::kSmall);
  Evidence uncertain = row(0.05, 2);
  uncertain.suffices = {-3, 1.6, 32};
  CHECK(judge({uncertain}, 0.1, 0).rows[0].mark == Mark::kPhantom);
}

TEST_CASE("the floor is the largest of its three parts") {
  const std::vector<Evidence> rows{row(-1, 0, 4),      row(3, 0),
                                   row(1, 1, {}, 0.2), row(1, 1, {}, std::nan("")),
                                   row(0.2, {}),       row(0.19, {})};
  const Judgement j = judge(rows, 0.05);
  CHECK(j.largest == 4);
  CHECK(j.rows[1].floor == 0.05 * 4);
  CHECK(j.rows[2].floor == 0.4);
  CHECK(j.rows[3].floor == 0.05 * 4);  // one sequence
  CHECK((j.rows[4].counts && !j.rows[5].counts));
  CHECK(j.order == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK(judge(rows, 0.3).rows[1].floor == 0.3);
  CHECK(judge(rows, HUGE_VAL).rows[0].counts == false);
  const Judgement heads = judge({row(1, 1), row(-4, 1)}, 0.01, 1);
  CHECK((heads.largest == 1 && heads.rows[1].floor == 0.05));
  CHECK((heads.agreement[0].rows == 1 && heads.order[0] == 1));
  CHECK(judge({}, 0.05).largest == 0);
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
  const Agreement a =
      judge({row(2, 1), row(-1, -0.25), row(4, 0.4), row(0.01, 7)}, 0.05).agreement[0];
  CHECK((a.name == "gradient" && a.rows == 3));
  CHECK(a.factor == Approx(0.25));
  // The median of an even number of factors is the mean of the two in the middle.
  CHECK(judge({row(1, 4), row(1, -1), row(1, 0.5), row(1, 1.5)}, 0.05).agreement[0].factor ==
        Approx(1));
  CHECK(judge({row(0, 1)}, 0.05).agreement[0].rows == 0);
}

TEST_CASE("two rows are about equal if their paired difference is below two errors") {
  const auto row = [](std::vector<double> needed, std::vector<double> suffices) {
    Evidence e{"", effect_of(needed), {}};
    if (!suffices.empty()) e.suffices = effect_of(suffices);
    return e;
  };
  const Evidence a = row({-1, -3, -2, -2}, {}), b = row({-1.1, -2.9, -2.1, -1.9}, {}),
                 c = row({-1.5, -3.5, -2.4, -2.6}, {});
  CHECK(about_equal(a, b));
  CHECK_FALSE(about_equal(a, c));  // 0.5 in each pair, although both have an error of 0.4
  CHECK(about_equal(row({0, 0, 0, 0}, {1, 3, 2, 2}), a));  // the size is |suffices|
  CHECK_FALSE(about_equal(row({-1}, {}), row({-1}, {})));  // one sequence has no error
}

}  // namespace
