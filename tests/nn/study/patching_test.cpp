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

// Returns L of the sequence `into` if the value at one place of a site is moved by `share` of the
// way to the value in the run on `from`. A place is a head if `site` contains
// "attn.hook", and otherwise a position.
double patched_by_hand(const Transformer& model, const std::string& site,
                       const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& into,
                       std::int64_t place, const Objective& o, double share = 1) {
  Probe recording, replacing;
  recording.record(site);
  model(batch_of({from}).inputs, {.probe = &recording});
  const Tensor other = recording.value(site);
  const bool by_head = site.find("attn.hook") != std::string::npos;
  replacing.replace(site, [&](const Tensor& x) {
    const Tensor y = contiguous(x.detach() + 0.0);
    const NoGrad guard;
    const std::int64_t axis = by_head && !site.ends_with("pattern") ? 2 : 1;
    const Tensor here = select(y, axis, place);
    copy_(here, share == 1 ? select(other, axis, place)
                           : here + share * (select(other, axis, place) - here));
    return y;
  });
  return objective_values(model(batch_of({into}).inputs, {.probe = &replacing}), batch_of({kClean}),
                          o)
      .item();
}

TEST_CASE("the gain of every place in both directions equals a hand-written patch") {
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
      CHECK(p.left_out == 0);
      const double gap = p.clean - p.corrupt;
      const auto kv = std::size_t(model.options.attention.kv_heads);
      CHECK(p.denoise.gains.size() == 2 * (6 * (options.mlp ? 3 : 2) + 3 * 3 + 2 * kv));
      REQUIRE(p.noise.gains.size() == p.denoise.gains.size());
      for (std::size_t i = 0; i < p.places.size(); ++i) {
        const auto& [site_in_block, by_head, layer, column, width] = p.places[i];
        const Evidence &into_corrupt = p.denoise.gains[i], &into_clean = p.noise.gains[i];
        CAPTURE(into_corrupt.place);
        CHECK((into_clean.place == into_corrupt.place && into_clean.effect.sequences == 1));
        const std::string site = block_site(layer, site_in_block);
        const double denoised = patched_by_hand(model, site, kClean, kCorrupt, column, o),
                     noised = patched_by_hand(model, site, kCorrupt, kClean, column, o);
        CHECK(std::abs(into_corrupt.effect.mean - (denoised - p.corrupt)) <= 1e-11);
        CHECK(std::abs(into_clean.effect.mean - (p.clean - noised)) <= 1e-11);
        CHECK(p.denoise.shares[i].effect.mean == Approx(into_corrupt.effect.mean / gap));
        CHECK(p.noise.shares[i].predicted() == Approx(into_clean.predicted() / gap));
        CHECK(std::isnan(p.noise.shares[i].effect.standard_error));
      }
    }
  }
}

// L(a) is L if the activation at one place is x + a (y - x), where y is its value in the other run.
// The prediction must be the derivative of L(a) at a = 0.
TEST_CASE("predictions are the derivatives of L along the patch, in both directions") {
  const Transformer model = random_model(small_options());
  const Patching p = patching(model, batch_of({kClean}), batch_of({kCorrupt}), kDiff);
  const double h = 1e-4;
  for (std::size_t i = 0; i < p.places.size(); ++i) {
    const Patching::Place& place = p.places[i];
    const std::string site = block_site(place.layer, place.site);
    CAPTURE(site, place.column);
    const auto slope = [&](const auto& from, const auto& into) {
      return (patched_by_hand(model, site, from, into, place.column, kDiff, h) -
              patched_by_hand(model, site, from, into, place.column, kDiff, -h)) /
             (2 * h);
    };
    CHECK(std::abs(p.denoise.gains[i].predicted() - slope(kClean, kCorrupt)) <= 1e-6);
    CHECK(std::abs(p.noise.gains[i].predicted() + slope(kCorrupt, kClean)) <= 1e-6);
  }
  for (const NamedTensor& w : parameters(model)) CHECK(!w.tensor.grad().defined());
}

TEST_CASE("shares over pairs are ratios of sums with jackknife errors") {
  // Leaving out one pair gives 3/4, 4/3 and 5/5: their mean is 37/36.
  const Effect r = ratio_of_sums({3, 2, 1}, {2, 3, 1});
  CHECK(r.mean == Approx(1));
  const double mean = 37.0 / 36, a = 3.0 / 4 - mean, b = 4.0 / 3 - mean, c = 1 - mean;
  CHECK(r.standard_error == Approx(std::sqrt(2.0 / 3 * (a * a + b * b + c * c))));
  const Transformer model = random_model(small_options());
  const std::vector<std::vector<std::int64_t>> clean{
      kClean, {1, 2, 6, 4, 0, 3}, {6, 5, 4, 3, 2, 1}},
      corrupt{kCorrupt, {1, 2, 6, 4, 0, 4}, {6, 5, 4, 3, 2, 1}};
  const Patching all = patching(model, batch_of(clean), batch_of(corrupt), kDiff);
  CHECK(all.noise.gains[0].effect.sequences == 2);
  CHECK(all.left_out == 1);  // equal prompts
  double gap = 0;
  std::vector<double> gains(all.places.size(), 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const Patching one = patching(model, batch_of({clean[i]}), batch_of({corrupt[i]}), kDiff);
    gap += one.clean - one.corrupt;
    for (std::size_t j = 0; j < gains.size(); ++j) gains[j] += one.denoise.gains[j].effect.mean;
  }
  for (std::size_t j = 0; j < gains.size(); ++j) {
    CHECK(all.denoise.gains[j].effect.mean == Approx(gains[j] / 2).margin(1e-12));
    CHECK(all.denoise.shares[j].effect.mean == Approx(gains[j] / gap).margin(1e-12));
    CHECK(!std::isnan(all.denoise.shares[j].effect.standard_error));
  }
}

TEST_CASE("pairs of different lengths or without a gap are errors") {
  const Transformer model = random_model(small_options());
  CHECK_THROWS_WITH(patching(model, batch_of({kClean}), batch_of({{0, 5, 1}}), kDiff),
                    Contains("needs pairs of sequences [N, T], got [1, 6] clean and [1, 3]") &&
                        Contains("give prompts of equal length"));
  CHECK_THROWS_WITH(patching(model, batch_of({kClean}), batch_of({kClean}), kDiff),
                    Contains("on both prompts, so a patch has nothing to restore"));
}

}  // namespace
