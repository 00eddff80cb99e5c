// Tests of n-gram models: their losses computed by hand, their limit, and cancellation.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::testing;
using Ids = std::vector<std::int64_t>;

NgramModel counted(const Ids& text, std::int64_t vocabulary, std::int64_t order) {
  NgramModel model(vocabulary, order);
  for (const std::int64_t id : text) model.count(id);
  return model;
}

TEST_CASE("n-grams by hand", "[text][ngram]") {
  // The text is a b a b a a, and the vocabulary is a, b and c. Token a occurs 4 times and token b
  // twice. The token after a is b twice and a once. The token after b is a twice, and the token
  // after a b is also a twice. No token is counted after c or after a a.
  const Ids text{0, 1, 0, 1, 0, 0};
  const NgramModel model = counted(text, 3, 3);
  const double p_a = (4 + 2.0 / 3) / 8, p_b = (2 + 2.0 / 3) / 8, p_c = (0 + 2.0 / 3) / 8;
  const auto nats = [&](const Ids& history, std::int64_t next, std::size_t order) {
    Ids targets(history.size(), kIgnored);
    targets.back() = next;
    return model.losses(history, targets)[order - 1];
  };
  REQUIRE(nats({2}, 0, 1) == Approx(-std::log(p_a)));
  REQUIRE(nats({2}, 2, 1) == Approx(-std::log(p_c)));
  const double p_b_a = (2 + 2 * p_b) / 5, p_a_b = (2 + 1 * p_a) / 3;  // p(b | a), p(a | b)
  REQUIRE(nats({0}, 1, 2) == Approx(-std::log(p_b_a)));
  REQUIRE(nats({1}, 0, 2) == Approx(-std::log(p_a_b)));
  REQUIRE(nats({2}, 1, 2) == Approx(-std::log(p_b)));    // unknown context, so order 1 is used
  REQUIRE(nats({0}, 1, 3) == Approx(-std::log(p_b_a)));  // context of 1 token, so order 2 is used
  REQUIRE(nats({0, 1}, 0, 3) == Approx(-std::log((2 + 1 * p_a_b) / 3)));
  REQUIRE(nats({0, 0}, 1, 3) == Approx(-std::log(p_b_a)));
  // The probabilities of each order sum to 1 after every context.
  for (const Ids& history : {Ids{0}, Ids{1, 0}, Ids{0, 1}, Ids{2, 2}, Ids{2, 0}})
    for (std::size_t order = 1; order <= 3; ++order) {
      double sum = 0;
      for (std::int64_t next = 0; next < 3; ++next) sum += std::exp(-nats(history, next, order));
      REQUIRE(sum == Approx(1).epsilon(1e-12));
    }
  // losses() returns the mean over the targets.
  REQUIRE(model.losses(Ids{0, 1}, Ids{1, 0})[2] ==
          Approx((nats({0}, 1, 3) + nats({0, 1}, 0, 3)) / 2));
  REQUIRE_THROWS_AS(NgramModel(3, 0), ValueError);
  // The text has 2 + 3 + 3 distinct n-grams of 1, 2 and 3 tokens. If the limit is lower than their
  // sum, the highest order is dropped, and the losses of the other orders do not change.
  for (const auto& [most, order] : {std::pair{8, 3}, {7, 2}, {5, 2}, {4, 1}, {0, 1}}) {
    NgramModel bounded(3, 3, std::size_t(most));
    for (const std::int64_t id : text) bounded.count(id);
    REQUIRE(bounded.order() == std::size_t(order));
    const auto losses = bounded.losses(Ids{0, 1, 2}, Ids{1, 0, 0});
    std::vector<double> expected = model.losses(Ids{0, 1, 2}, Ids{1, 0, 0});
    expected.resize(std::size_t(order));
    REQUIRE(losses == expected);
  }
  REQUIRE_THROWS_AS(NgramModel(65537, 5), ValueError);
}

TEST_CASE("counting n-grams can be cancelled and repeated", "[text][ngram]") {
  const File file(std::string(2000, 'a') + std::string(2000, 'b'));
  const auto task = make_text({.path = file.path(), .context = 8, .ngrams = 3});
  int polls = 0;
  const auto stop = [&] {
    ++polls;
    throw std::runtime_error("stop");
  };
  REQUIRE_THROWS_AS(task->prepare_evaluation(stop), std::runtime_error);
  REQUIRE(polls == 1);
  task->prepare_evaluation([&] { ++polls; });
  REQUIRE(polls == 2);
  REQUIRE(task->evaluation(0, 1).references.contains("3-gram"));
}

}  // namespace
