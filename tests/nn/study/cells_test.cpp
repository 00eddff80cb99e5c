// Tests of cuts of cells: predictions against a softmax written out here, effects against a mask,
// and names of cells.
#include "nn/study/cells.h"

#include "nn/lab.h"
#include "nn/study/forward_passes.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::testing::largest;

TEST_CASE("the prediction of a cut is the sum of (A' - A) dL/dA over its row") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Study s = study(model, one_sequence(), kDiff);
    for (std::int64_t layer = 0; layer < o.layers; ++layer) {
      const LayerStudy& at = s.layers[std::size_t(layer)];
      const Tensor hidden = le(at.scores, -HUGE_VAL);
      for (std::int64_t key = 0; key < 6; ++key) {
        const Tensor rest = exp(masked_fill(at.scores, eq(arange(6), double(key)), -HUGE_VAL)),
                     total = sum(rest, {-1}, true),
                     after = rest / masked_fill(total, eq(total, 0), 1);
        const Tensor change = (after - at.pattern) * at.pattern_grad,
                     expected = sum(masked_fill(change, hidden, 0), {-1});
        const auto column = [&](const Tensor& x) { return select(x, 3, key); };
        const Tensor got = column(at.cut_prediction), A = column(at.pattern);
        CHECK(largest(got - masked_fill(expected, column(hidden), 0)) <= 1e-10);
        const Tensor first_order = got + column(at.scores_grad) / (1 - A);
        CHECK(largest(masked_fill(first_order, gt(A, 0.99), 0)) <= 1e-9);
      }
    }
  }
}

TEST_CASE("predictions do not depend on the number of queries that are computed at once") {
  Generator g(1);
  const std::int64_t T = 70;  // several blocks of queries, and a part of one
  const Tensor scores = masked_fill(3 * randn({1, 2, T, T}, float64, g),
                                    logical_not(tril_mask(T, T)), -HUGE_VAL),
               grad = randn({1, 2, T, T}, float64, g), all = cut_predictions(scores, grad);
  for (std::int64_t t = 0; t < T; ++t) {
    const auto row = [&](const Tensor& x) { return slice(slice(x, 2, t, t + 1), 3, 0, t + 1); };
    CHECK(largest(row(all) - cut_predictions(row(scores), row(grad))) <= 1e-13);
    CHECK(largest(slice(slice(all, 2, t, t + 1), 3, t + 1, T)) == 0);
  }
}

TEST_CASE("the prediction of a weight that rounds to 1 is that of the other scores") {
  // The first weight is 1 in float32 and float64; the others share 1 : 3 after the cut.
  const Tensor scores =
      from_data(std::vector<double>{60, 0, std::log(3.0), -HUGE_VAL}, {1, 1, 1, 4});
  const Tensor grad = from_data(std::vector<double>{5, 1, 2, 100}, {1, 1, 1, 4});
  const Tensor p = cut_predictions(scores, grad);
  CHECK(p.at({0, 0, 0, 0}) == Approx((1 + 3 * 2) / 4.0 - 5));
  CHECK(std::abs(p.at({0, 0, 0, 1})) < 1e-20);
  CHECK(p.at({0, 0, 0, 3}) == 0);
  // If no key remains, the row has no weights.
  const Tensor alone = from_data(std::vector<double>{2, -HUGE_VAL}, {1, 1, 1, 2});
  const Tensor both = from_data(std::vector<double>{5, 9}, {1, 1, 1, 2});
  CHECK(cut_predictions(alone, both).at({0, 0, 0, 0}) == -5);
}

TEST_CASE("an effect is L with the score at -inf, and equals the prediction in a linear model") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Study s = study(model, one_sequence(), kDiff);
    const std::vector<Cell> set{{{0, 1}, 4, 2}, {{1, 0}, 5, 3}, {{1, 0}, 5, 0}};
    const std::vector<std::vector<Cell>> sets{{{{1, 2}, 5, 1}}, set};
    const auto cuts = cut_cells({model, one_sequence(), kDiff}, s, sets);
    REQUIRE(cuts.size() == 2);
    CHECK((cuts[0].place == "L1H2[5,1]" && cuts[1].place == "L0H1[4,2], L1H0[5,3], L1H0[5,0]"));
    for (std::size_t i = 0; i < 2; ++i) {
      Probe probe;
      for (std::int64_t layer = 0; layer < o.layers; ++layer)
        probe.replace(block_site(layer, "attn.hook_attn_scores"), [&, layer](const Tensor& x) {
          const Tensor y = contiguous(x.detach() + 0);
          for (const Cell& c : sets[i])
            if (c.head.layer == layer)
              y.mutable_data<double>()[(c.head.head * 6 + c.query) * 6 + c.key] = -HUGE_VAL;
          return y;
        });
      const NoGrad guard;
      const double value = to_doubles(objective_values(
          model(one_sequence().inputs, {.probe = &probe}), one_sequence(), kDiff))[0];
      CHECK(std::abs(cuts[i].effect.mean - (value - s.value)) <= 1e-12);
    }
    double sum = 0;  // cells of different rows add in the prediction
    for (const auto& cells : std::vector<std::vector<Cell>>{{set[0]}, {set[1], set[2]}})
      sum += cut_cells({model, one_sequence(), kDiff}, s, {cells})[0].predicted();
    CHECK(std::abs(cuts[1].predicted() - sum) <= 1e-12);
  }
  Transformer::Options o = small_options();
  o.layers = 1, o.mlp = false, o.norm = NormPlacement::kNone;
  const Transformer linear = random_model(o);
  const Study s = study(linear, one_sequence(), kDiff);
  std::vector<std::vector<Cell>> sets;
  for (const Cell& c : parse_cells("x", "L0H0[*,*],L0H1[*,*],L0H2[5,*]", 1, 3, 6))
    sets.push_back({c});
  for (const Evidence& cut : cut_cells({linear, one_sequence(), kDiff}, s, sets))
    CHECK(std::abs(cut.effect.mean - cut.predicted()) <= 1e-12 * std::max(1.0, std::abs(s.value)));
}

TEST_CASE("notable cells have the largest predictions, and then the largest outputs") {
  const Transformer model = random_model(small_options());
  const Study s = study(model, one_sequence(), kDiff);
  const auto cells = notable_cells(s, 5);
  REQUIRE(cells.size() == 10);
  const auto at = [&](const Cell& c, Tensor LayerStudy::*map) {
    return std::abs(
        (s.layers[std::size_t(c.head.layer)].*map).at({0, c.head.head, c.query, c.key}));
  };
  const auto all =
      parse_cells("x", "L0H0[*,*],L0H1[*,*],L0H2[*,*],L1H0[*,*],L1H1[*,*],L1H2[*,*]", 2, 3, 6);
  CHECK(all.size() == 6 * 21);
  for (const Cell& c : all) {
    const auto place = std::find(cells.begin(), cells.end(), c) - cells.begin();
    for (int i = 0; i < 5 && place >= 5; ++i)
      CHECK(at(c, &LayerStudy::cut_prediction) <=
            at(cells[std::size_t(i)], &LayerStudy::cut_prediction));
    for (int i = 5; i < 10 && place == 10; ++i)
      CHECK(at(c, &LayerStudy::pattern_x_value_norm) <=
            at(cells[std::size_t(i)], &LayerStudy::pattern_x_value_norm));
  }
  CHECK(notable_cells(s, 1000).size() == all.size());
}

TEST_CASE("cells are written L1H0[5,3], with ranges and *; names parse to the same cells") {
  const auto parsed = [](const std::string& text) { return parse_cells("--cut", text, 2, 2, 6); };
  const auto names = [&](const std::string& text) {
    std::string all;
    for (const Cell& c : parsed(text)) all += (all.empty() ? "" : ",") + cell_name(c);
    CHECK(parsed(all) == parsed(text));
    return all;
  };
  CHECK(names("L1H0[5,3]") == "L1H0[5,3]");
  CHECK(names("L1H0[5,0-1],L0H1[2,2]") == "L1H0[5,0],L1H0[5,1],L0H1[2,2]");
  CHECK(names("L0H0[*,4]") == "L0H0[4,4],L0H0[5,4]");
  CHECK(names("L0H0[1,*]") == "L0H0[1,0],L0H0[1,1]");
  CHECK(names("L0H1,L1H0[5,3]") == "L0H1[5,3],L1H0[5,3]");
  CHECK(names("L0H0[2-3,2-3],L0H1,L1H1[0,*]") ==
        "L0H0[2,2],L0H0[3,2],L0H0[3,3],L0H1[0,0],L1H1[0,0]");
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"", "is not a cell"},
           {"L1H0", "is not a cell"},
           {"L1H0[5]", "is not a cell"},
           {"L1H0[5,3", "is not a cell"},
           {"L1H0 [5,3]", "is not a head"},
           {"L1H0[5,3],", "is not a cell"},
           {"L1H0[a,3]", "is not a cell"},
           {"L1H0[5,3]]", "is not a cell"},
           {"L1H0[,]", "is not a cell"},
           {"[5,3]", "is not a head"},
           {"L1H0[5,3-]", "is not a cell"},
           {"L1H0[5", "write a head, a query and a key"},
           {"L2H0[5,3]", "'L2H0' is not a head of this model"},
           {"L1H0[6,3]", "positions are 0 to 5"},
           {"L1H0[5,3-2]", "positions are 0 to 5"},
           {"L1H0[3,5]", "the query cannot read it"},
           {"L1H0[5,3],L1H0[*,3]", "names L1H0[5,3] twice"},
           {"L1H0[99999999999999999999,3]", "is not a cell"}}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parsed(text), Contains("--cut") && Contains(error));
  }
}

}  // namespace
