// Tests of ablation, which must equal a hand-written replacement.
#include <map>
#include <set>

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

std::vector<double> values_of(const Transformer& model, const Batch& b, const Objective& o,
                              Probe* probe = nullptr) {
  return to(objective_values(model(b.inputs, {.probe = probe}), b, o), float64).to_vector<double>();
}

// Returns what replaces x [3, T, ...] by its definition. `tokens` is 1 where a position holds a
// token, of the rank of x.
Tensor replaced_by(const Tensor& x, Ablation how, Index shift, const Tensor& tokens) {
  if (how == Ablation::kZero) return zeros_like(x);
  if (how == Ablation::kMean)
    return expand(sum(x * tokens, {0}, true) / sum(tokens, {0}, true), x.shape());
  return cat({slice(x, 0, shift, 3), slice(x, 0, 0, shift)}, 0);
}

TEST_CASE("heads, MLPs and the embedding are replaced by those of donors, zeros or means") {
  for (const auto& [name, o] : studied_models()) {
    const Transformer model = random_model(o);
    Batch batch = three_sequences();
    batch.padding = {0, 1, 2};
    const Tensor tokens = from_data(
        std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0}, {3, 6, 1});
    std::vector<std::vector<Component>> sets{{{0, 1}, {1, 2}}, {Component()}};
    if (o.mlp) sets.push_back({Component::mlp(0), {1, 0}});
    for (const Ablation how : {Ablation::kResample, Ablation::kZero, Ablation::kMean}) {
      const auto all = replacements(model, next_donors(batch), how);
      REQUIRE(all.size() == (how == Ablation::kResample ? 2 : 1));
      for (std::size_t donor = 0; donor < all.size(); ++donor)
        for (const auto& set : sets) {
          CAPTURE(name, int(how), donor, component_name(set[0]));
          Probe clean, by_hand;
          std::map<std::string, std::vector<bool>> sites;  // heads; empty: the whole value
          for (const Component& c : set) {
            if (c.kind == Component::kEmbed) sites["blocks.0.hook_resid_pre"] = {};
            if (c.kind == Component::kMlp) sites[block_site(c.layer, "hook_mlp_out")] = {};
            if (c.kind != Component::kHead) continue;
            auto& heads = sites[block_site(c.layer, "attn.hook_z")];
            heads.resize(3), heads[std::size_t(c.head)] = true;
          }
          for (const auto& [site, heads] : sites) clean.record(site);
          model(batch.inputs, {.probe = &clean});
          for (const auto& [site, heads] : sites) {
            const Tensor x = clean.value(site);
            const Tensor other = replaced_by(x, how, Index(donor) + 1,
                                             x.rank() == 4 ? unsqueeze(tokens, -1) : tokens);
            by_hand.replace(site, [=, &heads = heads](const Tensor& y) {
              return heads.empty() ? other : where(from_data(heads, {3, 1}), other, y);
            });
          }
          const NoGrad guard;
          const auto expected = values_of(model, batch, kDiff, &by_hand),
                     values = values_without({model, batch, kDiff}, set, all[donor]);
          for (std::size_t b = 0; b < 3; ++b) CHECK(std::abs(values[b] - expected[b]) <= 1e-11);
        }
    }
  }
}

TEST_CASE("an effect is a mean over positions, with errors over sequences and a donor deviation") {
  const Effect e = effect_of({1, -2, 4, 5});
  CHECK(e.mean == 2);
  CHECK(e.standard_error == Approx(std::sqrt((1 + 16 + 4 + 9) / 3.0 / 4)));
  CHECK(e.sequences == 4);
  CHECK(std::isnan(effect_of({3}).standard_error));
  CHECK_THROWS_AS(effect_of({}), ValueError);
  const Effect weighted = effect_of({3, 1, 2}, {2, 3, 1});  // sums 6, 3, 2 of 6 positions
  CHECK(weighted.mean == Approx(11.0 / 6));
  const double a = 5.0 / 4, b = 8.0 / 3, c = 9.0 / 5, mean = (a + b + c) / 3;
  CHECK(weighted.standard_error ==
        Approx(std::sqrt(2.0 / 3 *
                         (std::pow(a - mean, 2) + std::pow(b - mean, 2) + std::pow(c - mean, 2)))));
  CHECK(effect_of({3, 1, 2}, {4, 4, 4}).standard_error ==
        Approx(effect_of({3, 1, 2}).standard_error));
  const Effect donors = effect_of_donors({{1, 3}, {2, 6}}, {1, 1});
  CHECK((donors.mean == 3 && donors.changes == std::vector<double>{1.5, 4.5}));
  CHECK(donors.donor_deviation == Approx(std::sqrt(2.0)));
  CHECK(std::isnan(effect_of_donors({{1, 3}}, {1, 1}).donor_deviation));
}

TEST_CASE("every sequence has four donors of its length, and is a donor equally often") {
  std::vector<Sequence> sequences;
  for (Index b = 0; b < 20; ++b) {  // 12 of length 6, 6 of length 5, 2 of length 4
    const Index padding = b < 12 ? 0 : b < 18 ? 1 : 2;
    sequences.push_back({.inputs = {b % 7, 1, 2, 3, 4, 5},
                         .targets = {1, 2, 3, 4, 5, kIgnored},
                         .counted = {true, true, true, true, true, false}});
    sequences.back().padding = padding;
  }
  const Batch batch = make_batch(sequences);
  const DonorSample sample = with_donors(batch);
  CHECK((sample.left_out == 2 && sample.batch.inputs.size(0) == 18));
  REQUIRE(sample.donors.rows.size() == std::size_t(kDonors));
  std::map<Index, int> times;
  for (Index b = 0; b < 18; ++b) {
    std::set<Index> own;
    for (const Tensor& rows : sample.donors.rows) own.insert(Index(rows.at({b})));
    CHECK((own.size() == std::size_t(kDonors) && !own.contains(b)));
    for (const Index donor : own) {
      CHECK(batch.tokens_of(donor) == sample.batch.tokens_of(b));
      ++times[donor];
    }
  }
  for (const auto& [donor, count] : times) CHECK(count == kDonors);
  CHECK(with_donors(rows_of(batch, {0, 1, 2, 3})).donors.rows.empty());
  const auto task = make_task("induction");
  const DonorSample prompt = with_donors(task->prompt("abcab"), *task);
  CHECK(prompt.batch.inputs.size(0) == kPromptDonors);
  CHECK(prompt.donors.source.inputs.shape() == prompt.batch.inputs.shape());
}

TEST_CASE("the accuracy with a replacement is the share of positions with the right token first") {
  const Transformer model = random_model(small_options());
  Batch batch = three_sequences();
  batch.counted = logical_and(batch.counted, ne(arange(6), 2.0));
  const auto replaced = replacements(model, next_donors(batch), Ablation::kMean);
  const Tensor measured = logical_and(ne(batch.targets, double(kIgnored)), batch.counted);
  for (const HeadIndex& h : all_heads(2, 3)) {
    Probe probe;
    probe.replace(block_site(h.layer, "attn.hook_z"), [&](const Tensor& z) {
      return where(reshape(eq(arange(3), double(h.head)), {3, 1}), replaced[0].z(h.layer), z);
    });
    const Tensor first = argmax(model(batch.inputs, {.probe = &probe}), -1);
    const auto count = [](const Tensor& x) { return sum(to(x, float64)).item(); };
    CHECK(ablate({model, batch, {}}, {h}, replaced).accuracy ==
          Approx(count(logical_and(eq(first, batch.targets), measured)) / count(measured)));
  }
}

TEST_CASE("an ablation in float32 changes no .grad; no head and the other heads are sets, too") {
  Transformer::Options o = small_options();
  o.attention.dtype = float32;
  const Transformer model = random_model(o);
  const Batch batch = three_sequences();
  const auto resample = replacements(model, next_donors(batch));
  CHECK(ablate({model, batch, {}}, {{1, 0}}, resample).sequences == 3);
  CHECK(values_without({model, batch, {}}, {}, resample[0]) == values_of(model, batch, {}));
  CHECK(other_components(model, {{0, 1}, {1, 2}}) ==
        std::vector<Component>{{0, 0}, {0, 2}, {1, 0}, {1, 1}});
  CHECK(other_components(model, {Component::mlp(0), {1, 2}}) ==
        std::vector<Component>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, Component::mlp(1)});
  for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
}

TEST_CASE("heads and components are written L1H0,L0MLP,embed; errors name what is accepted") {
  const auto heads = [](const std::string& text) { return parse_heads("x", text, 2, 3); };
  const auto components = [](const std::string& text, bool mlps = true) {
    return parse_components("x", text, 2, 3, mlps);
  };
  CHECK(heads("L1H0,L0H2") == std::vector<HeadIndex>{{1, 0}, {0, 2}});
  CHECK(components("L0MLP,embed,L1H2") ==
        std::vector<Component>{Component::mlp(0), Component(), {1, 2}});
  for (const Component& c : {Component(), Component(1, 2), Component::mlp(1)})
    CHECK(parse_component("x", component_name(c), 2, 3, true) == c);
  for (const char* text : {"", "L", "L1", "H0", "L1H0,", "l1h0", "L1H0 ", "L1H0 L0H0", "LH", "L1H",
                           "L1H0.5", "1H0", "L1H99999999999999999999"})
    CHECK_THROWS_WITH(heads(text), Contains("' is not a head; write heads as L0H0,L0H1"));
  for (const char* text :
       {"", "L0", "MLP", "LMLP", "L0mlp", "L0MLP0", "L0.5MLP", "Embed", "L0MLP "})
    CHECK_THROWS_WITH(components(text),
                      Contains("' is not a component; write heads as L0H1, MLPs as L0MLP"));
  for (const std::string text : {"L1H3", "L2H0", "L-1H0"})
    CHECK_THROWS_WITH(heads(text),
                      "x: '" + text + "' is not a head of this model, which has L0H0 to L1H2");
  CHECK_THROWS_WITH(components("L2MLP"),
                    "x: 'L2MLP' is not an MLP of this model, which has L0MLP to L1MLP");
  CHECK_THROWS_WITH(components("L0MLP", false), "x: 'L0MLP': this model does not have MLPs");
  CHECK_THROWS_WITH(components("L0MLP,L0MLP"), "x: names L0MLP twice");
  const Transformer model = random_model(small_options());
  const BaseRun run(model, three_sequences(), {});
  const auto zero = replacements(model, next_donors(three_sequences()), Ablation::kZero);
  CHECK_THROWS_WITH(ablate(run, {{0, 7}}, zero), Contains("'L0H7' is not a head"));
}

}  // namespace
