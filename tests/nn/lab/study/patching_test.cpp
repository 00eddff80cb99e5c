// Tests of activation patching against hand-written replacements.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

const std::vector<Index> kClean{0, 3, 1, 3, 6, 2}, kCorrupt{0, 5, 1, 3, 4, 2};

// Returns L of the sequence `into` with the value at one place of a site of the run on `from`. A
// place is a head if `site` contains "attn.hook", and otherwise a position.
double patched_by_hand(const Transformer& model, const std::string& site,
                       const std::vector<Index>& from, const std::vector<Index>& into, Index place,
                       const Objective& o) {
  Probe recording, replacing;
  recording.record(site);
  model(batch_of({from}).inputs, {.probe = &recording});
  const Tensor other = recording.value(site);
  const bool by_head = site.find("attn.hook") != std::string::npos;
  replacing.replace(site, [&](const Tensor& x) {
    const Tensor y = contiguous(x.detach() + 0.0);
    const NoGrad guard;
    const Index axis = by_head && !site.ends_with("pattern") ? 2 : 1;
    copy_(select(y, axis, place), select(other, axis, place));
    return y;
  });
  return objective_values(model(batch_of({into}).inputs, {.probe = &replacing}), batch_of({kClean}),
                          o)
      .item();
}

TEST_CASE("the share of every place in both directions equals a hand-written patch") {
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
      CHECK(p.denoise.size() == 2 * (6 * (options.mlp ? 3 : 2) + 3 * 3 + 2 * kv));
      REQUIRE(p.noise.size() == p.denoise.size());
      for (std::size_t i = 0; i < p.places.size(); ++i) {
        const Patching::Place& place = p.places[i];
        CAPTURE(place.name());
        const std::string site = block_site(place.layer, place.site);
        const double denoised = patched_by_hand(model, site, kClean, kCorrupt, place.column, o),
                     noised = patched_by_hand(model, site, kCorrupt, kClean, place.column, o);
        CHECK(p.denoise[i].mean == Approx((denoised - p.corrupt) / gap).epsilon(1e-9).margin(1e-9));
        CHECK(p.noise[i].mean == Approx((p.clean - noised) / gap).epsilon(1e-9).margin(1e-9));
        CHECK(std::isnan(p.noise[i].standard_error));
      }
      const Patching heads = patching(model, batch_of({kClean}), batch_of({kCorrupt}), o, true);
      CHECK(heads.places.size() == 2 * (3 * 3 + 2 * kv));
    }
  }
}

TEST_CASE("shares over pairs are ratios of sums; gaps of both signs do not cancel") {
  // Leaving out one pair gives 3/4, 4/3 and 5/5: their mean is 37/36.
  const Effect r = ratio_of_sums({3, 2, 1}, {2, 3, 1});
  CHECK(r.mean == Approx(1));
  const double mean = 37.0 / 36, a = 3.0 / 4 - mean, b = 4.0 / 3 - mean, c = 1 - mean;
  CHECK(r.standard_error == Approx(std::sqrt(2.0 / 3 * (a * a + b * b + c * c))));
  const Transformer model = random_model(small_options());
  const std::vector<std::vector<Index>> one{kClean, {1, 2, 6, 4, 0, 3}, {6, 5, 4, 3, 2, 1}},
      other{kCorrupt, {1, 2, 6, 4, 0, 4}, {6, 5, 4, 3, 2, 1}};
  const Patching there = patching(model, batch_of(one), batch_of(other), kDiff),
                 back = patching(model, batch_of(other), batch_of(one), kDiff);
  CHECK((there.left_out == 1 && there.noise[0].sequences == 2));  // equal prompts
  // A pair whose prompts are exchanged has the other gap; together they have the shares of both.
  std::vector<std::vector<Index>> mixed_clean = one, mixed_corrupt = other;
  std::swap(mixed_clean[1], mixed_corrupt[1]);
  const Patching mixed = patching(model, batch_of(mixed_clean), batch_of(mixed_corrupt), kDiff);
  std::vector<double> sizes, gains(there.places.size(), 0);
  double total = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const Patching pair =
        patching(model, batch_of({mixed_clean[i]}), batch_of({mixed_corrupt[i]}), kDiff);
    const double size = std::abs(pair.clean - pair.corrupt);
    for (std::size_t k = 0; k < gains.size(); ++k) gains[k] += size * pair.denoise[k].mean;
    total += size;
  }
  for (std::size_t k = 0; k < gains.size(); ++k) {
    CHECK(there.denoise[k].mean == Approx(back.noise[k].mean).epsilon(1e-9).margin(1e-12));
    CHECK(mixed.denoise[k].mean == Approx(gains[k] / total).epsilon(1e-9).margin(1e-12));
  }
  // L of pairs with two named tokens: the prompts that the model gets wrong are counted.
  const Tensor logits = select(model(batch_of({kClean}).inputs), 1, 5);
  const auto best = argmax(logits, -1).to_vector<std::int64_t>()[0];
  const auto tokens = [](Index token) {
    std::vector<Index> all(6, kIgnored);
    all.back() = token;
    return from_data(all, {1, 6});
  };
  const Objective right{
      .kind = Objective::kPair, .right = tokens(best), .wrong = tokens((best + 1) % 7)},
      wrong{.kind = Objective::kPair, .right = tokens((best + 1) % 7), .wrong = tokens(best)};
  CHECK(patching(model, batch_of({kClean}), batch_of({kCorrupt}), right).wrong_clean == 0);
  CHECK(patching(model, batch_of({kClean}), batch_of({kCorrupt}), wrong).wrong_clean == 1);
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
