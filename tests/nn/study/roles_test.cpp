// Tests of roles and of the summary of heads: the limits of each rule, and shares against sums that
// are written out here.
#include "nn/study/roles.h"

#include <cmath>
#include <map>

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("a role needs a score of 0.4 and three times that of equal weights") {
  using Scores = std::map<Quantity, double>;
  const struct {
    Scores head;
    double uniform;  // induction score of equal weights; the other scores are 0
    const char* roles;
  } cases[] = {{{}, 0.1, ""},
               {{{kInduction, 0.39}}, 0.1, ""},
               {{{kInduction, 0.4}}, 0.1, "induction "},
               {{{kInduction, 0.4}}, 0.14, ""},
               {{{kInduction, NAN}}, NAN, ""},  // no token occurs twice
               {{{kPreviousToken, 0.5}, {kFirstToken, 0.6}, {kRelativeEntropy, 0.95}},
                0.1,
                "first-token previous-token "},  // the larger score first
               {{{kRelativeEntropy, 0.89}}, 0.1, ""},
               {{{kRelativeEntropy, 0.9}}, 0.1, "uniform "}};
  for (const auto& [scores, equal, roles] : cases) {
    HeadReport head, uniform;
    uniform.values.fill(0);
    uniform[kInduction] = equal;
    for (const auto& [q, value] : scores) head[q] = value;
    std::string found;
    for (const Role* role : roles_of(head, uniform)) found += std::string(role->name) + " ";
    CHECK(found == roles);
  }
}

TEST_CASE("a summary names the heads that matter; shares are relative to no heads at all") {
  const Transformer model = random_model(small_options());
  const Batch& batch = two_prompts();
  const Replacement r = replacement(model, batch, Ablation::kMean);
  MeasuredHeads m = measure_heads({model, batch, {}}, r, EffectParts::kMeasured);
  const auto mean_value = [&](const std::vector<Component>& cut) {
    const auto values = values_without({model, batch, {}}, cut, r);
    return (values[0] + values[1]) / 2;
  };
  const double whole = mean_value({}), none = mean_value(components(all_heads(2, 3)));
  REQUIRE(std::abs(whole - none) > 0.01);
  const KeptShare kept = kept_share({model, batch, {}}, {{0, 1}, {1, 2}}, r);
  CHECK(kept.effect.mean == Approx(mean_value({{0, 1}, {1, 2}}) - whole));
  CHECK(kept.left == Approx((mean_value({{0, 1}, {1, 2}}) - none) / (whole - none)));

  // Effects are set here, so that each rule decides one head. The largest effect is 2, so the floor
  // is 0.1.
  const Effect none_here{0, 0.001, 2};
  for (Evidence& e : m.effects) {
    e.effect = e.predictions[0].effect = none_here;
    if (e.suffices) e.suffices = none_here;
  }
  m.effects[0].effect.mean = -2;         // matters
  m.effects[1].suffices->mean = -0.1;    // matters as the only head of its layer
  m.effects[2].effect.mean = 0.099;      // below the floor
  m.effects[3].effect = {0.5, 0.3, 2};   // below two standard errors
  m.effects[4].suffices = {-1, 0.6, 2};  // below two of its own standard errors
  m.effects[7].effect.mean = 10;         // an MLP does not change the floor of heads
  m.no_heads = {-3, 0.001, 2};
  const HeadSummary s = summarize_heads({model, batch, {}}, r, m);
  REQUIRE(s.findings.size() == 8);
  CHECK(s.named == std::vector<HeadIndex>{{0, 0}, {0, 1}});
  CHECK((!s.findings[6].matters() && !s.findings[7].head && s.findings[7].role() == "other"));
  CHECK(s.judgement.rows[0].floor == Approx(0.1));
  CHECK(s.judgement.order[0] == 7);
  CHECK((s.findings[1].is_sufficient && !s.findings[1].is_needed));
  CHECK(s.heads_change_L);
  CHECK(s.left_without == Approx(kept_share({model, batch, {}}, components(s.named), r).left));
  CHECK(
      s.left_alone ==
      Approx(kept_share({model, batch, {}}, other_components(model, components(s.named)), r).left));

  for (std::size_t i = 0; i < 6; ++i) m.effects[i].effect.mean = m.effects[i].suffices->mean = 0;
  m.no_heads = {0.02, 0.001, 2};  // above the floor of 0.01, but below 0.01 * sqrt(6)
  const HeadSummary nothing = summarize_heads({model, batch, {}}, r, m);
  CHECK(nothing.named.empty());
  CHECK(!nothing.heads_change_L);
  CHECK(std::isnan(nothing.left_alone));
  m.no_heads.mean = 0.03;
  CHECK(summarize_heads({model, batch, {}}, r, m).heads_change_L);

  m.effects[0].effect.mean = -2, m.reports[0][kInduction] = 1;
  for (const bool predicts : {true, false}) {
    const HeadSummary now = summarize_heads({model, batch, {}}, r, m, predicts);
    const Finding& f = now.findings[0];
    CHECK((f.matters() == predicts && f.roles.empty() != predicts));
    CHECK(std::isinf(now.judgement.rows[0].floor) != predicts);
  }
}

TEST_CASE("the gain over token frequencies is that of the counted targets of each sequence") {
  const Transformer model = random_model(small_options());
  Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {0, 1, 1, 5, 2, 4}, {1, 1, 1, 1, 1, 1}});
  auto counted = batch.counted.to_vector<bool>();
  counted[1] = counted[8] = false;
  std::fill(counted.begin() + 12, counted.end(), false);  // the third sequence has no gain
  batch.counted = from_data(counted, batch.counted.shape());
  const Tensor log_p = log_softmax(model(batch.inputs), -1);
  // The counted targets are 3 3 6 2 in the first sequence and 1 1 2 4 in the second.
  const std::map<std::int64_t, double> share{
      {1, 2. / 8}, {2, 2. / 8}, {3, 2. / 8}, {4, 1. / 8}, {6, 1. / 8}};
  std::vector<double> gains(2);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 5; ++t)
      if (counted[std::size_t(b * 6 + t)]) {
        const auto y = std::int64_t(batch.targets.at({b, t}));
        gains[std::size_t(b)] += (log_p.at({b, t, y}) - std::log(share.at(y))) / 4;
      }
  const auto found = gains_over_frequencies(model, batch);
  REQUIRE(found.size() == 2);
  const double bias = 4.0 / (2 * 8);  // of 5 different and 8 counted targets
  CHECK(found[0] == Approx(gains[0] + bias));
  CHECK(found[1] == Approx(gains[1] + bias));
}

}  // namespace
