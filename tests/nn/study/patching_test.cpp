// Tests of activation patching. Effects are compared with hand-written replacements, and estimates
// with finite differences.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

const std::vector<std::int64_t> kClean{0, 3, 1, 3, 6, 2}, kCorrupt{0, 5, 1, 3, 4, 2};

// Returns L of the corrupt prompt if the value at one place of a site is replaced by the value of
// the clean run.
double patched_by_hand(const Transformer& model, const std::string& site, bool by_head,
                       std::int64_t place, const Objective& o) {
  const Batch clean = batch_of({kClean}), corrupt = batch_of({kCorrupt});
  Probe recording, replacing;
  recording.record(site);
  model(clean.inputs, {.probe = &recording});
  const Tensor from = recording.value(site);
  replacing.replace(site, [&](const Tensor& x) {
    const Tensor y = contiguous(x.detach() + 0.0);
    const NoGrad guard;
    const std::int64_t axis = by_head ? 2 : 1;
    copy_(select(y, axis, place), select(from, axis, place));
    return y;
  });
  return objective_values(model(corrupt.inputs, {.probe = &replacing}), clean, o).item();
}

TEST_CASE("the effect of every place equals a hand-written patch") {
  for (const auto& [name, options] : studied_models()) {
    const Transformer model = random_model(options);
    for (const Objective& o : {kDiff, Objective{}}) {
      CAPTURE(name, o.kind);
      const Patching p = patching(model, batch_of({kClean}), batch_of({kCorrupt}), o);
      const auto value = [&](const auto& tokens) {
        return objective_values(model(batch_of({tokens}).inputs), batch_of({kClean}), o).item();
      };
      CHECK(p.clean == Approx(value(kClean)).epsilon(1e-12));
      CHECK(p.corrupt == Approx(value(kCorrupt)).epsilon(1e-12));
      CHECK(p.maps.size() == (options.mlp ? 4 : 3));
      const double gap = p.clean - p.corrupt;
      for (const PatchMap& map : p.maps) {
        CAPTURE(map.site);
        CHECK(map.columns == (map.by_head ? 3 : 6));
        REQUIRE(map.effect.size() == std::size_t(map.layers * map.columns));
        for (std::int64_t i = 0; i < map.layers * map.columns; ++i) {
          const std::string site = "blocks." + std::to_string(i / map.columns) + "." + map.site;
          const double by_hand = patched_by_hand(model, site, map.by_head, i % map.columns, o);
          CHECK(std::abs(map.effect[std::size_t(i)] - (by_hand - p.corrupt) / gap) <=
                1e-11 / std::min(1.0, std::abs(gap)));
        }
      }
    }
  }
}

TEST_CASE(
    "patching the embedding of the only different token restores L; equal tokens have no effect") {
  const Transformer model = random_model(small_options());
  const std::vector<std::int64_t> corrupt{0, 3, 1, 3, 6, 5};  // only the last token differs
  const Patching p = patching(model, batch_of({kClean}), batch_of({corrupt}), kDiff);
  REQUIRE(p.maps[0].site == "hook_resid_pre");
  CHECK(p.maps[0].effect[5] == Approx(1));
  for (std::size_t t = 0; t < 5; ++t) CHECK(p.maps[0].effect[t] == 0);
}

// At each place, L(a) is L with the activation corrupt + a * (clean - corrupt). The estimates must
// equal the derivatives of L(a) at a = 0.
TEST_CASE("first and second order are the derivatives of L along the patch") {
  const Transformer model = random_model(small_options());
  const Batch clean = batch_of({kClean}), corrupt = batch_of({kCorrupt});
  const Patching p = patching(model, clean, corrupt, kDiff);
  const double gap = p.clean - p.corrupt;
  for (const PatchMap& map : p.maps)
    for (std::int64_t layer = 0; layer < map.layers; ++layer) {
      const std::string site = "blocks." + std::to_string(layer) + "." + map.site;
      CAPTURE(site);
      Probe clean_run, corrupt_run;
      clean_run.record(site), corrupt_run.record(site);
      model(clean.inputs, {.probe = &clean_run});
      const GradMode recording(true);
      const Tensor start = model.tok(corrupt.inputs).detach().requires_grad_();
      grad(objective_values(model.forward_embedded(start, {.probe = &corrupt_run}), clean, kDiff),
           start, {.grad_output = ones({1}, float64)});
      const Tensor d = clean_run.value(site) - corrupt_run.value(site);
      const Tensor products = map.by_head ? sum(d * corrupt_run.value(site + "_grad"), {0, 1, 3})
                                          : sum(d * corrupt_run.value(site + "_grad"), {0, 2});
      const auto at_share = [&](std::int64_t place, double a) {
        Probe replacing;
        replacing.replace(site, [&](const Tensor& x) {
          const Tensor mask = to(eq(arange(map.columns), double(place)), float64);
          return x + a * d * reshape(mask, map.by_head ? Shape{1, 1, -1, 1} : Shape{1, -1, 1});
        });
        return objective_values(model(corrupt.inputs, {.probe = &replacing}), clean, kDiff).item();
      };
      for (std::int64_t c = 0; c < map.columns; ++c) {
        const auto i = std::size_t(layer * map.columns + c);
        CHECK(std::abs(map.first_order[i] - products.at({c}) / gap) <= 1e-11);
        const double h = 1e-3;
        const double curve =
            (at_share(c, h) - 2 * at_share(c, 0) + at_share(c, -h)) / (h * h) / gap;
        CHECK(std::abs(map.second_order[i] - map.first_order[i] - curve / 2) <=
              1e-4 * std::max(1.0, std::abs(curve)));
      }
    }
  for (const NamedTensor& w : parameters(model)) CHECK(!w.tensor.grad().defined());
}

TEST_CASE("for similar prompts first order is close to the effect, and second order closer") {
  Transformer model = random_model(small_options());
  {
    const NoGrad guard;  // makes the embeddings of tokens 5 and 6 nearly equal
    Generator random(5);
    copy_(select(model.tok.weight, 0, 5),
          select(model.tok.weight, 0, 6) + 0.005 * randn({12}, float64, random));
  }
  const Batch clean = batch_of({{0, 3, 6, 3, 1, 2}}), corrupt = batch_of({{0, 3, 5, 3, 1, 2}});
  const Patching p = patching(model, clean, corrupt, kDiff);
  CHECK(p.first_order.r > 0.999);
  CHECK(std::abs(p.first_order.slope - 1) < 0.1);
  const auto error = [](const EstimateFit& fit) {
    return std::abs(fit.worst.effect - fit.worst.estimate);
  };
  CHECK(error(p.first_order) < 0.1);
  CHECK(error(p.second_order) < 0.2 * error(p.first_order));
}

TEST_CASE(
    "without norms the logits are linear in the last MLP's output, so both orders are exact") {
  Transformer::Options o = small_options();
  o.norm = NormPlacement::kNone;
  for (const bool frozen : {false, true}) {
    Transformer model = random_model(o);
    if (frozen) for_each_parameter(model, [](const std::string&, Tensor& p) { p = p.detach(); });
    const Patching p = patching(model, batch_of({kClean}), batch_of({kCorrupt}), kDiff);
    const PatchMap& mlp = p.maps[2];
    REQUIRE(mlp.site == "hook_mlp_out");
    for (std::size_t i = 6; i < 12; ++i) {
      CHECK(std::abs(mlp.first_order[i] - mlp.effect[i]) <= 1e-12);
      CHECK(std::abs(mlp.second_order[i] - mlp.effect[i]) <= 1e-12);
    }
    CHECK(std::abs(mlp.effect[11]) > 1e-3);
  }
}

TEST_CASE("estimate_fit of known numbers") {
  PatchMap a{"hook_resid_pre", false, 1, 3, {0, 1, 2}, {1, 3, 5}, {0, 1, 2.5}};
  PatchMap b{"attn.hook_z", true, 2, 1, {3, 4}, {7, 9}, {3, 4}};
  const EstimateFit exact =
      estimate_fit({a, b}, &PatchMap::first_order);  // all estimates are 2 * effect + 1
  CHECK(exact.r == Approx(1));
  CHECK(exact.slope == Approx(2));
  CHECK(exact.worst.site == "attn.hook_z");
  CHECK(exact.worst.layer == 1);
  CHECK(exact.worst.column == 0);
  CHECK(exact.worst.effect == 4);
  CHECK(exact.worst.estimate == 9);
  const EstimateFit near = estimate_fit({a, b}, &PatchMap::second_order);
  CHECK(near.r < 1);
  CHECK(near.worst.site == "hook_resid_pre");
  CHECK(near.worst.column == 2);
  b.first_order.pop_back();
  CHECK_THROWS_AS(estimate_fit({a, b}, &PatchMap::first_order), ShapeError);
}

TEST_CASE("patching works with more places than copies in a batch, and in float32") {
  Transformer::Options o = small_options();
  o.context = 40, o.layers = 1, o.attention.dtype = float32;
  const Transformer model = random_model(o);
  std::vector<std::int64_t> clean, corrupt;
  for (std::int64_t i = 0; i < 40; ++i) clean.push_back(i * i % 7), corrupt.push_back(i * i % 7);
  corrupt[1] = 0, corrupt[37] = 6, corrupt[39] = 5;
  const Patching p = patching(model, batch_of({clean}), batch_of({corrupt}), kDiff);
  REQUIRE(p.maps[0].effect.size() == 40);
  for (std::size_t t = 0; t < 40; ++t)
    CHECK((p.maps[0].effect[t] != 0) == (clean[t] != corrupt[t]));
}

TEST_CASE("prompts that cannot be patched are errors") {
  const Transformer model = random_model(small_options());
  const Batch clean = batch_of({kClean});
  CHECK_THROWS_WITH(
      patching(model, clean, batch_of({{1, 2}}), kDiff),
      "patching: the clean prompt has 6 tokens, the corrupt prompt 2; give prompts of "
      "equal length, so that positions correspond");
  CHECK_THROWS_WITH(patching(model, clean, clean, kDiff), Contains("on both prompts"));
  CHECK_THROWS_AS(patching(model, clean, batch_of({kClean, kClean}), kDiff), ShapeError);
}

}  // namespace
