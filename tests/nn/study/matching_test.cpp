// Tests of the matching of heads of two runs: assignments against all permutations, permuted heads,
// and differences.
#include "nn/study/matching.h"

#include <algorithm>
#include <numeric>

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// Returns the model with heads 0 and 1 of layer 1 exchanged.
Transformer exchanged(const Transformer& model) {
  Transformer other = convert(clone(model), AttentionForm::kPerHead);
  const NoGrad guard;
  AttentionWeights& w = other.blocks[1].attn.weights;
  for (Tensor* x : {&w.W_Q, &w.W_K, &w.W_V, &w.W_O, &w.b_Q, &w.b_K, &w.b_V}) {
    if (!x->defined()) continue;
    const Tensor old = *x + 0;
    copy_(select(*x, 0, 0), select(old, 0, 1));
    copy_(select(*x, 0, 1), select(old, 0, 0));
  }
  return other;
}

TEST_CASE("the best assignment is that of all permutations with the largest sum") {
  Generator g(5);
  for (const auto& [rows, columns] : {std::pair(4, 4), std::pair(3, 5), std::pair(5, 3)}) {
    for (int trial = 0; trial < 40; ++trial) {
      const auto cells = randn({rows * columns}, float64, g).to_vector<double>();
      const auto sum_of = [&](const std::vector<std::int64_t>& column) {
        double sum = 0;
        for (std::size_t i = 0; i < column.size(); ++i)
          if (column[i] >= 0 && column[i] < columns)
            sum += cells[i * std::size_t(columns) + std::size_t(column[i])];
        return sum;
      };
      const auto found = best_assignment(cells, rows, columns);
      REQUIRE(found.size() == std::size_t(rows));
      std::vector<std::int64_t> order(std::size_t(std::max(rows, columns)));
      std::iota(order.begin(), order.end(), 0);
      double best = -1e9;
      do best = std::max(best, sum_of({order.begin(), order.begin() + rows}));
      while (std::next_permutation(order.begin(), order.end()));
      CHECK(sum_of(found) == Approx(best));
      CHECK(std::ranges::count(found, -1) == std::max(0, rows - columns));
    }
  }
}

TEST_CASE("heads of an exchanged model are matched with their copies") {
  const Transformer model = random_model(small_options()), other = exchanged(model);
  const Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {0, 1, 1, 5, 2, 4}});
  const auto matches = match_heads(model, other, batch.inputs, false);
  REQUIRE(matches.size() == 6);
  for (const HeadMatch& m : matches) {
    const std::int64_t expected = m.a.layer == 1 && m.a.head < 2 ? 1 - m.a.head : m.a.head;
    CHECK(m.b == HeadIndex{m.a.layer, expected});
    CHECK(m.cosine == Approx(1));
    CHECK(m.is_close);
  }
  const auto same = match_heads(model, other, batch.inputs, true);
  CHECK(same[3].b == HeadIndex{1, 0});
  CHECK(same[3].cosine < 0.9999);
  for (const HeadMatch& m : same) CHECK(m.is_close);  // whatever the cosine
  const Study a = study(model, one_sequence(), {}), b = study(other, one_sequence(), {});
  for (const LayerStudy& layer : difference_of(a, b, matches).layers)
    for (const MapQuantity& q : map_quantities())
      CHECK(max(abs(masked_fill(layer.*q.values, le(layer.scores, -HUGE_VAL), 0))).item() <= 1e-12);
}

TEST_CASE("a head without a close match is hidden in the difference") {
  const Transformer model = random_model(small_options());
  const Study a = study(model, one_sequence(), {});
  std::vector<HeadMatch> matches = match_heads(model, model, one_sequence().inputs, true);
  CHECK(matches[1].is_close);
  matches[1].is_close = false;
  matches[2] = {{0, 2}, {}, 0, false};
  const Study d = difference_of(a, a, matches);
  CHECK(d.value == 0);
  const auto shown = [&](std::int64_t layer, std::int64_t head) {
    return sum(to(logical_not(le(select(d.layers[std::size_t(layer)].scores, 1, head), -HUGE_VAL)),
                  float64))
        .item();
  };
  CHECK(shown(0, 0) == 21);
  CHECK(shown(0, 1) == 0);
  CHECK(shown(0, 2) == 0);
  CHECK(shown(1, 2) == 21);
}

TEST_CASE("runs with one seed and task begin with equal weights") {
  RunConfig a = preset("induction"), b = a;
  const auto task = make_task("induction");
  b.lr = 0.1;
  CHECK(equal_at_start(a, *task, b, *task));
  b.seed = a.seed + 1;
  CHECK(!equal_at_start(a, *task, b, *task));
}

}  // namespace
