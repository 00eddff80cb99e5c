// Tests of the least loss that a model can have on a batch, and of memorizing a batch.
#include "nn/train/checks/overfit.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

double floor_of(const std::vector<std::vector<std::int64_t>>& sequences,
                const std::function<void(Transformer::Options&)>& change) {
  std::vector<Sequence> list;
  for (const auto& tokens : sequences) {
    Sequence& s = list.emplace_back();
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      s.inputs.push_back(tokens[t]), s.targets.push_back(tokens[t + 1]);
      s.counted.push_back(true);
    }
  }
  Transformer::Options o{.layers = 2, .context = 8, .attention = {.d_model = 8, .heads = 1}};
  o.positions = Positions::kRope;
  change(o);
  return entropy_floor(make_batch(list), o);
}

TEST_CASE("the least loss depends on what a model can tell apart") {
  const auto none = [](Transformer::Options&) {};
  const auto learned = [](Transformer::Options& o) { o.positions = Positions::kLearned; };
  const auto one_layer = [](Transformer::Options& o) {
    o.layers = 1, o.positions = Positions::kNone;
  };
  const auto window = [](Transformer::Options& o) { o.attention.window = 2, o.layers = 1; };
  // The first tokens differ, so the token after 1 2 is certain in each sequence.
  CHECK(floor_of({{0, 1, 2, 3}, {4, 1, 2, 5}}, none) == 0);
  // With a window of 2, the query at token 2 reads only 1 2 in both sequences.
  CHECK(floor_of({{0, 1, 2, 3}, {4, 1, 2, 5}}, window) == Approx(2 * std::log(2) / 6));
  // One layer without positions cannot distinguish the orders 0 1 2 and 1 0 2.
  CHECK(floor_of({{0, 1, 2, 3}, {1, 0, 2, 4}}, none) == 0);
  CHECK(floor_of({{0, 1, 2, 3}, {1, 0, 2, 4}}, one_layer) == Approx(2 * std::log(2) / 6));
  // Equal tokens can be counted only with absolute positions.
  const std::vector<std::vector<std::int64_t>> equal{{0, 0, 0, 1}};
  const double uncertain = -(2.0 / 3 * std::log(2.0 / 3) + 1.0 / 3 * std::log(1.0 / 3));
  CHECK(floor_of(equal, none) == Approx(uncertain));
  CHECK(floor_of(equal, learned) == 0);
  // One layer without positions cannot distinguish 0 1 0 1 from 0 1: same shares, same last token.
  CHECK(floor_of({{0, 1, 0, 1, 2}}, one_layer) > 0.1);
  CHECK(floor_of({{0, 1, 0, 1, 2}}, none) == 0);
}

TEST_CASE("no model has a loss below its least loss, and inputs that it cannot tell apart agree") {
  {
    Transformer::Options o{
        .vocab = 3, .layers = 1, .context = 4, .attention = {.d_model = 8, .heads = 2}};
    o.positions = Positions::kNone, o.attention.dtype = float64;
    const Transformer model = random_model(o);
    const auto last = [&](const std::vector<std::int64_t>& ids) {
      const Tensor logits = model(from_data(ids, {1, std::ssize(ids)}));
      return contiguous(select(select(logits, 1, std::ssize(ids) - 1), 0, 0)).to_vector<double>();
    };
    const auto differ = [&](const std::vector<std::int64_t>& a,
                            const std::vector<std::int64_t>& b) {
      double largest = 0;
      for (std::size_t c = 0; c < 3; ++c)
        largest = std::max(largest, std::abs(last(a)[c] - last(b)[c]));
      return largest > 1e-9;
    };
    CHECK(!differ({0, 1, 2}, {1, 0, 2}));
    CHECK(!differ({0, 0}, {0, 0, 0}));
    CHECK(!differ({0, 1}, {0, 0, 1, 1}));
    CHECK(differ({0, 1, 1}, {0, 0, 1}));
  }
}

TEST_CASE("a batch is memorized, and a constant loss does not count as falling") {
  RunConfig c = tiny_run();
  c.model.attention.dropout = 0, c.batch = 2, c.steps = 400, c.schedule = Decay::kConstant;
  CHECK(Trainer(c).step().loss == Approx(std::log(16.0)).margin(0.5));  // about that of guessing
  Trainer t(c);
  const Overfit learned = overfit_batch(t);
  CHECK((learned.learned && learned.loss - learned.least < 1e-3));
  c.steps = 20, c.lr = 1e-12;
  Trainer slow(c);
  const Overfit stuck = overfit_batch(slow);
  CHECK((!stuck.learned && !stuck.falls));
  CHECK(stuck.least_seen <= stuck.loss);
}

}  // namespace
