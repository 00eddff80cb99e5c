// Tests of the task `induction`. They check its sequences, and compare its optimal loss with Bayes'
// rule over all possible sequences.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

std::size_t period_of(const Ids& y) {
  std::size_t p = 1;
  while (y[p] != y[0]) ++p;
  return p;
}

TEST_CASE("induction: blocks of distinct tokens, periods uniform", "[tasks][induction]") {
  const auto task = make_task("induction");
  Generator g(11);
  const int draws = 13000;
  std::map<std::string, int> periods, firsts;
  for (const Row& row : rows_of(task->sample(draws, g))) {
    const std::size_t p = period_of(row.targets);
    REQUIRE((p >= 3 && p <= 24));
    REQUIRE(std::set(row.targets.begin(), row.targets.begin() + std::ptrdiff_t(p)).size() == p);
    for (std::size_t t = 0; t < 48; ++t) {
      REQUIRE(row.targets[t] == row.targets[t % p]);
      REQUIRE(row.counted[t] == (t > p));
    }
    ++periods[std::to_string(p)];
    ++firsts[std::to_string(row.targets[0])];
  }
  REQUIRE(chi_square(periods, 22, draws) < chi_square_limit(22));
  REQUIRE(chi_square(firsts, 32, draws) < chi_square_limit(32));
  for (const Row& row : rows_of(task->example(g))) REQUIRE(period_of(row.targets) == 16);
}

TEST_CASE("induction: the optimum equals Bayes' rule over all sequences", "[tasks][induction]") {
  const InductionOptions o{.vocabulary = 4, .periods = {2, 3}, .context = 5};
  Prefixes mass;
  for (std::size_t p = 2; p <= 3; ++p) {
    std::vector<Ids> blocks;
    for (Index a = 0; a < 4; ++a)
      for (Index b = 0; b < 4; ++b)
        for (Index c = 0; c < 4; ++c)
          if (a != b && a != c && b != c && (p == 3 || c == (a + 1) % 4 || b == (a + 1) % 4))
            blocks.push_back(p == 3 ? Ids{a, b, c} : Ids{a, b});
    std::set<Ids> distinct(blocks.begin(), blocks.end());
    REQUIRE(distinct.size() == (p == 3 ? 24 : 12));
    for (const Ids& block : distinct) {
      Ids y;
      for (std::size_t t = 0; t < 5; ++t) y.push_back(block[t % p]);
      add_sequence(mass, y, 0.5 / double(distinct.size()));
    }
  }
  const auto task = make_induction(o);
  double expected = 0, total = 0;
  for (const auto& [y, probability] : mass)
    if (y.size() == 5) {
      expected += probability * bayes_nats(mass, y) / 5;
      total += probability;
    }
  REQUIRE(total == Approx(1));
  REQUIRE(task->info().optimal == Approx(expected).epsilon(1e-12));

  Generator g(3);
  const Batch batch = task->sample(200, g);
  const auto rows = rows_of(batch);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Ids& y = rows[i].targets;
    REQUIRE(batch.optimal[i] == Approx(bayes_nats(mass, y) / 5).epsilon(1e-12));
    for (std::size_t t = 0; t < 5; ++t) {
      const Ids before(y.begin(), y.begin() + std::ptrdiff_t(t));
      const Ids with(y.begin(), y.begin() + std::ptrdiff_t(t) + 1);
      REQUIRE(batch.position_optimal[5 * i + t] ==
              Approx(-std::log(mass.at(with) / mass.at(before))).margin(1e-12));
    }
    const double copy_only = double(period_of(y) + 1) * std::log(4.0) / 5;
    REQUIRE(batch.references.at("copy-only")[i] == Approx(copy_only).epsilon(1e-12));
    for (std::size_t t = 0; t < 5; ++t)  // counted targets have probability 1
      if (rows[i].counted[t])
        REQUIRE(mass.at(Ids(y.begin(), y.begin() + std::ptrdiff_t(t) + 1)) ==
                Approx(mass.at(Ids(y.begin(), y.begin() + std::ptrdiff_t(t)))));
  }
}

TEST_CASE("induction: expectations", "[tasks][induction]") {
  const TaskInfo from_12 = make_induction({.periods = {12, 24}})->info();
  REQUIRE(from_12.optimal == Approx(1.217479).margin(5e-7));
  REQUIRE(from_12.references.at("copy-only") == Approx(1.371854).margin(5e-7));
  const auto task = make_task("induction");
  REQUIRE(task->info().optimal == Approx(0.951870).margin(5e-7));
  const double copy = task->info().references.at("copy-only");
  REQUIRE(copy == Approx(14.5 * std::log(32.0) / 48).epsilon(1e-12));  // the mean of P + 1 is 14.5
  REQUIRE(make_task("induction", 26)->info().context == 26);
  REQUIRE(error_of([] { make_task("induction", 25); }) ==
          "induction: context 25 is too short for blocks of up to 24 tokens to repeat: needs 26 or "
          "more");
  REQUIRE_THROWS_AS(make_induction({.vocabulary = 20}), ValueError);
  REQUIRE_THROWS_AS(make_induction({.vocabulary = 53}), ValueError);
  REQUIRE_THROWS_AS(make_induction({.periods = {5, 4}}), ValueError);
  REQUIRE_THROWS_AS(make_induction({.periods = {0, 4}}), ValueError);
}

}  // namespace
