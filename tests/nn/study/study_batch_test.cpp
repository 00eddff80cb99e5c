// Tests of studies of several sequences. Each quantity is compared with a second computation.
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

Sequence sequence(std::vector<std::int64_t> inputs, std::vector<std::int64_t> targets) {
  Sequence s;
  s.counted.assign(inputs.size(), true);
  s.inputs = std::move(inputs), s.targets = std::move(targets);
  return s;
}
const Sequence kFirst = sequence({0, 3, 1, 3, 4, 2}, {3, 1, 3, 4, 2, 1});
const Sequence kSecond = sequence({1, 1, 4, 0, 2, 3}, {1, 4, kIgnored, 2, kIgnored, 0});

Transformer::Options small() {
  Transformer::Options o{
      .vocab = 5, .layers = 2, .context = 6, .attention = {.d_model = 8, .heads = 4}};
  o.attention.dtype = float64;
  return o;
}

// Returns the largest difference of two arrays; 0 where both are -inf.
double difference(const Tensor& a, const Tensor& b) {
  return largest(masked_fill(a - b, eq(a, b), 0));
}

TEST_CASE("the study of a batch is the mean of the studies of its sequences") {
  Transformer::Options o = small();
  o.attention.kv_heads = 2, o.attention.window = 4;
  const Transformer model = random_model(o);
  for (const Objective& objective :
       {Objective{}, Objective{.positions = {1, 3}}, Objective{Objective::kLogit, 2, 0, {}},
        Objective{Objective::kDifference, 1, 3, {4, 5}}}) {
    const Study both = study(model, make_batch({kFirst, kSecond}), objective);
    const Study a = study(model, make_batch({kFirst}), objective),
                b = study(model, make_batch({kSecond}), objective);
    CHECK(both.value == Approx((a.value + b.value) / 2).epsilon(1e-12));
    REQUIRE(both.heads.size() == 8);
    for (std::size_t i = 0; i < both.heads.size(); ++i)
      for (const HeadQuantity& q : head_quantities()) {
        // dW_Q to dW_O are norms of means, not means of norms.
        if (q.name.starts_with("dW_") || q.source != q.kStudy) continue;
        CAPTURE(q.name, i);
        const double expected = (a.heads[i][q.quantity] + b.heads[i][q.quantity]) / 2;
        CHECK(both.heads[i][q.quantity] == Approx(expected).epsilon(1e-9).margin(1e-12));
      }
    const auto norm_of = [](const Study& s) { return mean_norm(s.layers[1].resid_pre_grad); };
    CHECK(norm_of(both) == Approx((norm_of(a) + norm_of(b)) / 2).epsilon(1e-12));
    const auto arrays = to_named(both), first = to_named(a), second = to_named(b);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      INFO(arrays[i].name);
      REQUIRE(arrays[i].tensor.size(0) == 2);
      CHECK(difference(arrays[i].tensor, cat({first[i].tensor, second[i].tensor}, 0)) <= 1e-12);
    }
  }
}

TEST_CASE("an objective at given positions uses only these positions") {
  const Transformer model = random_model(small());
  const Batch one = make_batch({kFirst});
  const Tensor logits = model(one.inputs);
  const auto loss_at = [&](std::int64_t t) {
    return cross_entropy(select(select(logits, 0, 0), 0, t),
                         from_data(std::vector<std::int64_t>{kFirst.targets[std::size_t(t)]}, {}))
        .item();
  };
  CHECK(study(model, one, {.positions = {1, 3}}).value ==
        Approx((loss_at(1) + loss_at(3)) / 2).epsilon(1e-12));
  const Tensor centered = logits - mean(logits, {2}, true), log_p = log_softmax(logits, 2);
  for (const auto& [kind, x] :
       {std::pair{Objective::kLogit, centered}, std::pair{Objective::kLogProbability, log_p}}) {
    CHECK(study(model, one, {kind, 2, 0, {}}).value == Approx(x.at({0, 5, 2})).epsilon(1e-12));
    CHECK(study(model, one, {kind, 2, 0, {1, 4}}).value ==
          Approx((x.at({0, 1, 2}) + x.at({0, 4, 2})) / 2).epsilon(1e-12));
    const Objective o{kind, 2, 0, {1, 4}};  // a number added to all logits changes nothing
    CHECK(objective_values(logits + 3, one, o).item() ==
          Approx(objective_values(logits, one, o).item()).epsilon(1e-12));
  }
  CHECK_THROWS_WITH(study(model, make_batch({kSecond}), {.positions = {2, 4}}),
                    Contains("the positions of L have no target"));
}

// Returns [B, T]: the logits [B, T, 5] of these tokens minus the largest other logit.
Tensor margins(const Tensor& logits, const Tensor& tokens) {
  const Tensor is = eq(unsqueeze(tokens, -1), arange(5));
  return sum(masked_fill(logits, logical_not(is), 0), {2}) -
         max(masked_fill(logits, is, -HUGE_VAL), {2});
}

TEST_CASE("a margin is the logit of the target minus the largest other logit, kept for all runs") {
  const Transformer model = random_model(small());
  Batch batch = make_batch({kFirst, kSecond});
  const Objective o = margin(model, batch);
  const Tensor logits = model(batch.inputs);
  const Tensor measured = logical_and(batch.counted, ne(batch.targets, double(kIgnored)));
  const Tensor right = masked_fill(batch.targets, logical_not(measured), double(kIgnored));
  CHECK(all(eq(o.right, right)).item() == 1);
  CHECK(all(eq(ne(o.wrong, double(kIgnored)), measured)).item() == 1);
  const Tensor weights = to(measured, float64);
  const Tensor expected = sum(margins(logits, right) * weights, {1}) / sum(weights, {1});
  CHECK(largest(objective_values(logits, batch, o) - expected) <= 1e-12);
  // Copies of the batch have the same tokens, and L is linear in the logits.
  const Batch copies = BaseRun(model, batch, o).repeated(3).batch;
  CHECK(largest(objective_values(model(copies.inputs), copies, o) - repeat_rows(expected, 3)) <=
        1e-12);
  Generator g(3);
  const Tensor other = randn(logits.shape(), logits.dtype(), g);
  CHECK(largest(objective_values(logits + 2 * other, batch, o) - expected -
                2 * objective_values(other, batch, o)) <= 1e-12);

  // Without a target, the margin is the largest logit minus the second one. Without a counted
  // position, it is the margin of the last position.
  batch.counted = zeros(batch.counted.shape(), bool8);
  batch.targets = full(batch.targets.shape(), double(kIgnored), int64);
  const Tensor last = objective_values(logits, batch, margin(model, batch));
  CHECK(largest(last - select(margins(logits, argmax(logits, -1)), 1, 5)) <= 1e-12);
  CHECK(min(last).item() > 0);
  CHECK_THROWS_WITH(margin(model, batch, {6}), Contains("outside the sequence"));
  CHECK_THROWS_WITH(objective_values(logits, batch, {.kind = Objective::kMargin}),
                    Contains("but the batch has 2 sequences"));
}

double norm(const Tensor& x) { return std::sqrt(sum(x * x).item()); }

TEST_CASE(
    "importance is the derivative by the gate; norms of head blocks make up the weight's norm") {
  for (const auto& [name, options] : variant_models(small())) {
    CAPTURE(name);
    const Transformer model = random_model(options);
    const Batch one = make_batch({kFirst});
    const Study s = study(model, one, {});
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const Tensor gates = ones({4}, float64).requires_grad_();
      Probe probe;
      probe.replace(block_site(layer, "attn.hook_z"), [&](const Tensor& z) {
        return z * reshape(gates, {4, 1});
      });
      const Tensor value = mean(objective_values(model(one.inputs, {.probe = &probe}), one, {}));
      const Tensor g = grad(value, gates);
      const LayerStudy& arrays = s.layers[std::size_t(layer)];
      CHECK(arrays.pattern.shape() == Shape{1, 4, 6, 6});
      double squares = 0;
      for (std::int64_t h = 0; h < 4; ++h) {
        const HeadReport& r = s.head(layer, h);
        const std::int64_t own = h * arrays.k.size(2) / 4;
        CHECK(r[kImportance] == Approx(g.at({h})).epsilon(1e-9).margin(1e-12));
        CHECK(r[kAbsoluteImportance] == std::abs(r[kImportance]));
        CHECK(r[kDq] == Approx(norm(select(arrays.q_grad, 2, h))));
        CHECK(r[kDz] == Approx(norm(select(arrays.z_grad, 2, h))));
        CHECK(r[kDk] == Approx(norm(select(arrays.k_grad, 2, own))));
        CHECK(r[kDv] == Approx(norm(select(arrays.v_grad, 2, own))));
        CHECK((r[kRelativeEntropy] > 0 && r[kRelativeEntropy] <= 1 + 1e-6));
        squares += std::pow(r[kDWO], 2);
      }
      const AttentionWeights& w = model.blocks[std::size_t(layer)].attn.weights;
      const Tensor whole =
          grad(mean(objective_values(model(one.inputs), one, {})), w.out_proj_weight);
      CHECK(std::sqrt(squares) == Approx(norm(whole)).epsilon(1e-9));
    }
  }
}

TEST_CASE("dW_Q, dW_K, dW_V and dW_O are norms of the gradients of the head's blocks") {
  for (const std::int64_t kv_heads : {4, 2}) {
    Transformer::Options o = small();
    o.attention.kv_heads = kv_heads;
    const Transformer model = random_model(o);
    const Batch both = make_batch({kFirst, kSecond});
    const Study s = study(model, both, {});
    const AttentionWeights& w = model.blocks[1].attn.weights;
    const Tensor loss = mean(objective_values(model(both.inputs), both, {}));
    const auto packed = grad(loss, {w.in_proj_weight, w.out_proj_weight});
    const HeadWeights heads = by_head({.in_proj_weight = packed[0], .out_proj_weight = packed[1]},
                                      model.options.attention);
    const Tensor g[] = {heads.W_Q, heads.W_K, heads.W_V, heads.W_O};
    const Quantity quantities[] = {kDWQ, kDWK, kDWV, kDWO};
    for (std::size_t i = 0; i < 4; ++i)
      for (std::int64_t h = 0; h < 4; ++h)
        CHECK(s.head(1, h)[quantities[i]] ==
              Approx(norm(select(g[i], 0, h * g[i].size(0) / 4))).epsilon(1e-9));
  }
}

TEST_CASE("log odds are log p - log(1 - p) of the targets that count") {
  const Transformer model = random_model(small());
  Batch batch = make_batch({kFirst});
  batch.counted = ne(reshape(arange(6), {1, 6}), 1.0);  // all positions but the second
  const Tensor logits = model(batch.inputs);
  const Tensor is = eq(unsqueeze(batch.targets, -1), arange(5));
  const Tensor p = sum(masked_fill(softmax(logits, -1), logical_not(is), 0), {2});  // [1, 6]
  const Tensor odds = log(p) - log(1 - p);
  const auto of = [&](const Tensor& x, const std::vector<std::int64_t>& positions) {
    return objective_values(x, batch, {.kind = Objective::kLogOdds, .positions = positions})
        .at({0});
  };
  CHECK(of(logits, {}) == Approx((sum(odds).item() - odds.at({0, 1})) / 5));
  CHECK(of(logits, {2}) == Approx(odds.at({0, 2})));
  // The log odds of a probability that rounds to 1 are finite.
  CHECK((of(logits * 1000, {2}) > -1e9 && std::isfinite(of(logits * 1000, {2}))));
}

TEST_CASE("padding has no share in the scores of a head") {
  const Transformer model = random_model(small());
  Batch padded = make_batch({kFirst});
  const Study whole = study(model, padded, {});
  padded.padding = {2};
  const Study s = study(model, padded, {});
  for (std::size_t i = 0; i < s.heads.size(); ++i) {
    const auto& pattern = whole.layers[std::size_t(s.heads[i].layer)].pattern;
    double first = 0;
    for (std::int64_t t = 1; t < 4; ++t) first += pattern.at({0, s.heads[i].head, t, 0}) / 3;
    CHECK(s.heads[i][kFirstToken] == Approx(first));
  }
  CHECK(s.uniform[kFirstToken] == Approx((1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 3));
  CHECK(s.uniform[kSoftmaxGain] == Approx((1.0 / 2 + 2.0 / 3 + 3.0 / 4) / 3));
  CHECK(s.uniform[kRelativeEntropy] == Approx(1));
}

TEST_CASE("A |v W_O| is the norm of what a key adds to the stream") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Study s = study(model, make_batch({kFirst}), {});
    for (std::size_t layer = 0; layer < s.layers.size(); ++layer) {
      const Block& block = model.blocks[layer];
      const LayerStudy& at = s.layers[layer];
      const Tensor W_O = by_head(block.attn.weights, block.attn.options).W_O;
      const std::int64_t heads = at.z.size(2), group = heads / at.v.size(2);
      for (std::int64_t h = 0; h < heads; ++h) {
        const Tensor added = matmul(select(at.v, 2, h / group), select(W_O, 0, h));
        const Tensor norms = sqrt(sum(added * added, {2}));  // [1, T]
        CHECK(largest(select(select(at.value_norm, 1, h), 1, 0) - norms) <= 1e-12);
        CHECK(largest(select(at.pattern_x_value_norm, 1, h) - select(at.pattern, 1, h) * norms) <=
              1e-12);
      }
    }
  }
}

TEST_CASE("arrays have the names of their sites; a missing head is an error") {
  const Transformer model = random_model(small());
  const Study s = study(model, make_batch({kFirst}), {});
  CHECK_THROWS_WITH(s.head(2, 0), "study: the model has 8 heads, but not L2H0");
  std::map<std::string, Tensor> arrays;
  for (const NamedTensor& a : to_named(s)) arrays[a.name] = a.tensor;
  CHECK(arrays.size() == 2 + 2 * (2 * 8 + 2));
  Probe probe;
  for (const ArrayQuantity& q : array_quantities())
    if (q.gradient || !q.value) probe.record(q.value ? block_site(1, q.site) : std::string(q.site));
  model(make_batch({kFirst}).inputs, {.probe = &probe});
  for (const std::string& site : probe.sites()) {
    if (!arrays.contains(site) || site.starts_with("blocks.0")) continue;
    INFO(site);
    CHECK(difference(probe.value(site), arrays[site]) <= 1e-12);
    CHECK(arrays[site + "_grad"].shape() == arrays[site].shape());
  }
}

TEST_CASE("L from the logits at the positions that it asks for is L from all logits") {
  const Transformer model = random_model(small_options());
  Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {0, 1, 1, 5, 2, 4}});
  batch.counted = from_data(std::vector<bool>{false, false, true, false, true, false,  //
                                              false, true, false, false, true, false},
                            {2, 6});
  const Tensor logits = model(batch.inputs);
  std::vector<Objective> objectives{margin(model, batch), margin(model, batch, {1, 3})};
  for (const auto kind : {Objective::kLoss, Objective::kLogLikelihood, Objective::kLogOdds,
                          Objective::kLogit, Objective::kLogProbability, Objective::kDifference})
    for (const auto& positions : std::vector<std::vector<std::int64_t>>{{}, {4, 1}})
      objectives.push_back({.kind = kind, .a = 3, .b = 5, .positions = positions});
  for (const Objective& o : objectives) {
    CAPTURE(o.kind, o.positions.size());
    const ObjectiveAt at = at_positions(o, batch);
    const Tensor index = from_data(at.positions, {std::ssize(at.positions)});
    const Tensor some = objective_values(index_select(logits, 1, index), at.batch, at.objective),
                 all = objective_values(logits, batch, o);
    for (const std::int64_t b : {0, 1}) CHECK(std::abs(some.at({b}) - all.at({b})) <= 1e-14);
  }
  CHECK(at_positions(objectives[0], batch).positions == std::vector<std::int64_t>{1, 2, 4});
  CHECK(at_positions({.kind = Objective::kLogit}, batch).positions == std::vector<std::int64_t>{5});
}

}  // namespace
