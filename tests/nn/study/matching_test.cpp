// Tests of the matching of heads of two runs: permuted heads, and differences.
#include "nn/study/matching.h"

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

TEST_CASE("heads of an exchanged model are matched with their copies") {
  const Transformer model = random_model(small_options()), other = exchanged(model);
  const Batch& batch = two_prompts();
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

TEST_CASE("heads are matched from the largest cosine on, in layers that both models have") {
  Transformer::Options small = small_options();
  small.layers = 1, small.attention.heads = 2;
  const Tensor inputs = batch_of({{0, 3, 1, 3, 6, 2}}).inputs;
  const Transformer a = random_model(small_options()), b = random_model(small);
  const auto matches = match_heads(a, b, inputs, false);
  CHECK(std::ranges::count_if(matches, [](const HeadMatch& m) { return m.b.has_value(); }) == 2);
  for (const HeadMatch& m : match_heads(b, a, inputs, false)) {
    REQUIRE(m.b);
    CHECK(m.b->layer == 0);
    CHECK(matches[std::size_t(m.b->head)].b == m.a);
  }
}

TEST_CASE("a difference is B minus A for close matches; other heads are hidden") {
  const Transformer model = random_model(small_options());
  const Study a = study(model, one_sequence(), {}),
              b = study(random_module<Transformer>(small_options(), 5), one_sequence(), {});
  std::vector<HeadMatch> matches = match_heads(model, model, one_sequence().inputs, true);
  std::swap(matches[0].b, matches[1].b);
  matches[2].is_close = false, matches[3] = {{1, 0}, {}, 0, false};
  const Study d = difference_of(a, b, matches);
  CHECK(d.value == b.value - a.value);
  for (const HeadMatch& m : matches) {
    const auto l = std::size_t(m.a.layer);
    const Tensor hidden = le(select(d.layers[l].scores, 1, m.a.head), -HUGE_VAL);
    CHECK(sum(to(hidden, float64)).item() == (m.is_close ? 15 : 36));
    for (const MapQuantity& q : map_quantities()) {
      if (!m.is_close) continue;
      const auto map = [&](const Study& s, const HeadIndex& h) {
        return select(s.layers[l].*q.values, 1, h.head);
      };
      const Tensor expected = map(b, *m.b) - map(a, m.a);
      CHECK(max(abs(masked_fill(expected, hidden, 0))).item() > 1e-4);
      CHECK(max(abs(masked_fill(map(d, m.a) - expected, hidden, 0))).item() <= 1e-12);
    }
  }
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
