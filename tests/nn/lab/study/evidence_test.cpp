// Tests of judgements: which effects count, how well predictions agree, and interactions.
#include "nn/lab/study/evidence.h"

#include "nn/lab/study/components.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::lab;

TEST_CASE("an effect counts from 5 % of the largest, two errors and the smallest effect on") {
  const std::vector<Evidence> rows{{"a", {-1, 0.01, 9}},
                                   {"b", {0.049, 0.001, 9}},
                                   {"c", {0.051, 0.001, 9}},
                                   {"d", {0.5, 0.26, 9}},
                                   {"e", {0.4, NAN, 1}}};
  const Judgement j = judge(rows);
  CHECK(j.counts == std::vector<bool>{true, false, true, false, true});
  CHECK((j.counted == 3 && j.largest == 1));
  CHECK(j.order == std::vector<std::size_t>{0, 3, 4, 2, 1});
  CHECK(judge({{"a", {0.009, 0, 9}}}).counted == 0);
  CHECK(judge(rows, HUGE_VAL).counted == 0);
  CHECK(judge({}).counted == 0);
}

TEST_CASE("the agreement is that of the rows that count") {
  std::vector<Evidence> rows{{"a", {-2, 0.01, 9}, -1, 0.5},
                             {"b", {1, 0.01, 9}, 4, 0.01},
                             {"c", {1, 0.01, 9}, 1.5, -0.1},
                             {"d", {0.001, 0.01, 9}, -5, 5}};
  const Judgement j = judge(rows);
  CHECK((j.path.factor == 1.5 && j.path.wrong_sign == 0 && j.path.close == 2));
  CHECK((j.gradient.factor == -0.1 && j.gradient.wrong_sign == 2 && j.gradient.close == 0));
  CHECK(std::isnan(judge({rows[3]}).path.factor));
  CHECK((factor_text(0.251) == "0.25" && factor_text(151.2) == "151"));
}

TEST_CASE("a head is redundant if its effect does not count, but an interaction does") {
  ComponentStudy s;
  s.components = {{0, 0}, {0, 1}, {1, 0}};
  s.rows = {{"L0H0", {-5, 0.1, 9}}, {"L0H1", {0.1, 0.1, 9}}, {"L1H0", {0, 0.1, 9}}};
  s.judgement = judge(s.rows);
  s.pairs = {{0, 1, {-3, 0.1, 9}}, {0, 2, {-0.2, 0.1, 9}}, {1, 2, {-0.5, 0.1, 9}}};
  const auto found = s.redundant();
  REQUIRE(found.size() == 2);  // L1H0 with L0H1
  CHECK((found[0].row == 1 && found[0].with == 0 && found[0].interaction == -3));
  CHECK((found[1].row == 2 && found[1].with == 1));
  s.pairs.pop_back();
  CHECK(s.redundant().size() == 1);
  CHECK_FALSE(s.depends(0));  // not measured
  s.zero = {{-1, 0.01, 9}, {0.6, 0.01, 9}, {0.1, 0.01, 9}};
  s.mean = {{1, 0.01, 9}, {0.1, 0.01, 9}, {0.2, 0.01, 9}};
  CHECK(s.depends(0));        // other signs
  CHECK(s.depends(1));        // 2.4 and 0.4 times the floor
  CHECK_FALSE(s.depends(2));  // neither reaches its floor
}

}  // namespace
