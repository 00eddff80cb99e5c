// Tests of studies of several sequences. Each quantity is compared with a second computation.
#include "nn/lab.h"
#include "nn/lab/study/forward_passes.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using heed::autograd::testing::largest;

Sequence sequence(std::vector<Index> inputs, std::vector<Index> targets) {
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
  const auto loss_at = [&](Index t) {
    return cross_entropy(select(select(logits, 0, 0), 0, t),
                         from_data(std::vector<Index>{kFirst.targets[std::size_t(t)]}, {}))
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

TEST_CASE("the default L of a prompt is the log probability of its answer at the last position") {
  const Transformer model = random_model(small());
  Batch prompt = make_batch({kFirst});
  CHECK(prompt_objective(model, prompt).a == 1);  // the prompt determines its last target
  prompt.targets = full({1, 6}, double(kIgnored), int64);
  const Tensor last = select(log_softmax(model(prompt.inputs), -1), 1, 5);
  const Objective o = prompt_objective(model, prompt);
  CHECK(objective_values(model(prompt.inputs), prompt, o).item() ==
        Approx(max(last).item()).epsilon(1e-12));
}

TEST_CASE("L of a sample is pooled over the positions that count; a sequence may have none") {
  const Transformer model = random_model(small());
  Batch batch = make_batch({kFirst, kSecond, kFirst});
  batch.counted = from_data(std::vector<bool>{true, true, false, true, false, false,   //
                                              true, false, true, false, false, false,  // one target
                                              false, false, false, false, false, false},
                            {3, 6});
  CHECK(counts_of({Objective::kLoss}, batch) == std::vector<double>{3, 1, 0});
  CHECK(counts_of({Objective::kLogit}, batch) == std::vector<double>{1, 1, 1});
  const BaseRun run(model, batch, {Objective::kLogLikelihood});
  const Tensor targets = masked_fill(batch.targets, logical_not(batch.counted), double(kIgnored));
  CHECK(effect_of(run.values, run.counts).mean ==
        Approx(-cross_entropy(model(batch.inputs), targets).item()).epsilon(1e-12));
  CHECK(run.values[2] == 0);
}

TEST_CASE("L of a pair is the logit of its right token minus that of its wrong token") {
  const Transformer model = random_model(small());
  const Batch batch = make_batch({kFirst, kSecond});
  const auto at_last = [](Index a, Index b) {
    std::vector<Index> tokens(12, kIgnored);
    tokens[5] = a, tokens[11] = b;
    return from_data(tokens, {2, 6});
  };
  const Objective o{.kind = Objective::kPair, .right = at_last(1, 2), .wrong = at_last(3, 0)};
  const Tensor logits = model(batch.inputs), L = objective_values(logits, batch, o);
  CHECK(L.at({0}) == Approx(logits.at({0, 5, 1}) - logits.at({0, 5, 3})));
  CHECK(L.at({1}) == Approx(logits.at({1, 5, 2}) - logits.at({1, 5, 0})));
  // Copies of the batch have the same tokens.
  const Batch copies = BaseRun(model, batch, o).repeated(3).batch;
  CHECK(largest(objective_values(model(copies.inputs), copies, o) - repeat_rows(L, 3)) <= 1e-12);
  CHECK(at_positions(o, batch).positions == std::vector<Index>{5});
  CHECK_THROWS_WITH(objective_values(logits, batch, {.kind = Objective::kPair}),
                    Contains("but the batch has 2 sequences"));
}

TEST_CASE("arrays have the names of their sites") {
  const Transformer model = random_model(small());
  const Study s = study(model, make_batch({kFirst}), {});
  std::map<std::string, Tensor> arrays;
  for (const NamedTensor& a : to_named(s)) arrays[a.name] = a.tensor;
  CHECK(arrays.size() == 2 + 2 * 2 * 8);
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
  std::vector<Objective> objectives;
  for (const auto kind : {Objective::kLoss, Objective::kLogLikelihood, Objective::kLogit,
                          Objective::kLogProbability, Objective::kDifference})
    for (const auto& positions : std::vector<std::vector<Index>>{{}, {4, 1}})
      objectives.push_back({.kind = kind, .a = 3, .b = 5, .positions = positions});
  for (const Objective& o : objectives) {
    CAPTURE(o.kind, o.positions.size());
    const ObjectiveAt at = at_positions(o, batch);
    const Tensor index = from_data(at.positions, {std::ssize(at.positions)});
    const Tensor some = objective_values(index_select(logits, 1, index), at.batch, at.objective),
                 all = objective_values(logits, batch, o);
    for (const Index b : {0, 1}) CHECK(std::abs(some.at({b}) - all.at({b})) <= 1e-14);
  }
  CHECK(at_positions(objectives[0], batch).positions == std::vector<Index>{1, 2, 4});
  CHECK(at_positions({.kind = Objective::kLogit}, batch).positions == std::vector<Index>{5});
}

}  // namespace
