// Tests of the bigram model: its loss computed by hand, and cancellation.
#include "nn/lab/tasks/bigram.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::testing;
using Ids = std::vector<Index>;

TEST_CASE("bigrams by hand", "[text][bigram]") {
  // The text is a b a b a a, and the vocabulary is a, b and c. Token a occurs 4 times and token b
  // twice. The token after a is b twice and a once. The token after b is a twice. No token is
  // counted after c.
  BigramModel model(3);
  for (const Index id : {0, 1, 0, 1, 0, 0}) model.count(id);
  const double p_a = (4 + 2.0 / 3) / 8, p_b = (2 + 2.0 / 3) / 8, p_c = (0 + 2.0 / 3) / 8;
  const auto nats = [&](Index context, Index next) { return model.loss(Ids{context}, Ids{next}); };
  REQUIRE(nats(0, 1) == Approx(-std::log((2 + 2 * p_b) / 5)));
  REQUIRE(nats(1, 0) == Approx(-std::log((2 + 1 * p_a) / 3)));
  REQUIRE(nats(2, 1) == Approx(-std::log(p_b)));  // nothing is counted after c
  REQUIRE(nats(2, 2) == Approx(-std::log(p_c)));
  for (const Index context : {0, 1, 2}) {
    double sum = 0;
    for (Index next = 0; next < 3; ++next) sum += std::exp(-nats(context, next));
    REQUIRE(sum == Approx(1).epsilon(1e-12));
  }
  // loss() returns the mean over the targets.
  REQUIRE(model.loss(Ids{0, 1, 2}, Ids{1, 0, kIgnored}) == Approx((nats(0, 1) + nats(1, 0)) / 2));
}

TEST_CASE("counting bigrams can be cancelled and repeated", "[text][bigram]") {
  const File file(std::string(2000, 'a') + std::string(2000, 'b'));
  const auto task = make_text({.path = file.path(), .context = 8, .bigrams = true});
  int polls = 0;
  const auto stop = [&] {
    ++polls;
    throw std::runtime_error("stop");
  };
  REQUIRE_THROWS_AS(task->prepare_evaluation(stop), std::runtime_error);
  REQUIRE(polls == 1);
  task->prepare_evaluation([&] { ++polls; });
  REQUIRE(polls == 2);
  REQUIRE(task->evaluation(0, 1).references.contains("2-gram"));
}

}  // namespace
