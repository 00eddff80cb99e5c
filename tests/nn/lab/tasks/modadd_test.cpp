// Tests of the task `modadd`: the training and evaluation parts of the table of sums, and the
// accuracy of a predictor that memorizes the training part.
#include "tests/support/catch.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

using Pairs = std::set<std::pair<Index, Index>>;

Pairs pairs_of(const Batch& batch, Index p) {
  Pairs pairs;
  for (const Row& row : rows_of(batch)) {
    REQUIRE(row.inputs[2] == p);
    REQUIRE(row.targets == Ids{kIgnored, kIgnored, (row.inputs[0] + row.inputs[1]) % p});
    REQUIRE(row.counted == std::vector<bool>{false, false, true});
    pairs.emplace(row.inputs[0], row.inputs[1]);
  }
  return pairs;
}

TEST_CASE("modadd: every sum is in one part, batches do not repeat", "[tasks][modadd]") {
  const auto task = make_task("modadd");
  Generator g(81);
  const Batch whole = task->sample(1404, g);
  REQUIRE(whole.inputs.size(0) == 1404);
  const Pairs train = pairs_of(whole, 53);
  REQUIRE(train.size() == 1404);
  REQUIRE(task->evaluation_size() == 53 * 53 - 1404);
  const Pairs test = pairs_of(task->evaluation(0, task->evaluation_size()), 53);
  REQUIRE(test.size() == 53 * 53 - 1404);
  const Pairs some = pairs_of(task->sample(1000, g), 53);
  REQUIRE(some.size() == 1000);
  for (const auto& pair : some) REQUIRE(train.contains(pair));
  REQUIRE(task->training_size() == 1404);
  REQUIRE(task->sample(5000, g).inputs.size(0) == 1404);

  // The predictor memorizes the training sums and uses a + b = b + a. `known` counts the evaluation
  // sums that it predicts.
  double known = 0;
  for (const auto& [a, b] : test) known += train.contains({b, a});
  const double f = 1404.0 / 2809, plateau = f * 52 / 53;
  REQUIRE(task->info().accuracy_references.at("sums and their mirrors known") ==
          Approx(0.4906).margin(5e-5));
  REQUIRE(known / double(test.size()) ==
          Approx(plateau).margin(4 * std::sqrt(0.25 / double(test.size()))));
  const auto other = make_modadd({.split_seed = 2});
  REQUIRE(pairs_of(other->sample(1404, g), 53) != train);
}

TEST_CASE("modadd: unordered pairs keep a + b and b + a together", "[tasks][modadd]") {
  const auto task = make_modadd({.modulus = 11, .split = "unordered"});
  Generator g(82);
  const Pairs train = pairs_of(task->sample(1000, g), 11);
  const Pairs test = pairs_of(task->evaluation(0, task->evaluation_size()), 11);
  REQUIRE(train.size() + test.size() == 121);
  for (const auto& [a, b] : train) REQUIRE(train.contains({b, a}));
  for (const auto& [a, b] : test) REQUIRE(test.contains({b, a}));
  // The rule a + b = b + a does not help here, so chance is the only reference.
  REQUIRE(task->info().accuracy_references == std::map<std::string, double>{{"chance", 1.0 / 11}});
}

TEST_CASE("modadd: each number is one character, and a prompt has two", "[tasks][modadd]") {
  const auto task = make_task("modadd");
  const Row row = rows_of(task->prompt("3k"))[0];
  REQUIRE(row.inputs == Ids{3, 20, 53});
  REQUIRE(row.targets == Ids{kIgnored, kIgnored, 23});
  REQUIRE(row.counted == std::vector<bool>{false, false, true});
  REQUIRE(rows_of(task->prompt("3k="))[0].inputs == row.inputs);
  for (const char* wrong : {"3", "", "3k=n", "3=", "="})
    REQUIRE_THROWS_AS(task->prompt(wrong), ValueError);
  REQUIRE(make_modadd({.modulus = 119})->info().vocabulary.size() == 120);
  REQUIRE(make_modadd({.modulus = 113, .train_share = 0.3})->evaluation_size() == 12769 - 3830);
  REQUIRE_THROWS_AS(make_modadd({.modulus = 120}), ValueError);
  REQUIRE_THROWS_AS(make_modadd({.modulus = 2, .train_share = 0.1}), ValueError);
  REQUIRE(error_of([] { make_task("modadd", 48); }) ==
          "modadd: a sequence has 3 tokens (a, b, =), not 48; omit context");
}

}  // namespace
