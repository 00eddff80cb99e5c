// Tests of the logit lens and of direct logit attribution, which are compared with the outputs of
// models.
#include "nn/study/lens.h"

#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("the lens after the last block equals the prediction of the model") {
  const auto targets = one_sequence().targets.to_vector<std::int64_t>();
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const LogitLens lens = logit_lens(model, study(model, one_sequence(), {}), one_sequence(), {});
    const Tensor p = softmax(model(one_sequence().inputs), -1).detach();
    const auto top = argmax(p, -1).to_vector<std::int64_t>();
    CHECK((lens.layers == 2 && lens.length == 6));
    for (std::int64_t t = 0; t < 6; ++t) {
      const LensCell& cell = lens.at(1, t);
      const std::int64_t target = targets[std::size_t(t)];
      CHECK((cell.token == target && cell.top == top[std::size_t(t)]));
      CHECK(cell.top_probability == Approx(p.at({0, t, cell.top})).epsilon(1e-12));
      if (target == kIgnored) {
        CHECK((std::isnan(cell.probability) && cell.rank == 0));
        continue;
      }
      const double right = p.at({0, t, target});
      CHECK(cell.probability == Approx(right).epsilon(1e-12));
      const Tensor better = gt(select(select(p, 0, 0), 0, t), right);
      CHECK(double(cell.rank) == 1 + sum(to(better, float64)).item());
    }
  }
}

TEST_CASE(
    "the lens after an earlier block equals the prediction of a model without the later ones") {
  const Transformer model = random_model(small_options());
  Transformer shallow = clone(model);
  shallow.blocks.pop_back();
  const Tensor p = softmax(shallow(one_sequence().inputs), -1).detach();
  const Study s = study(model, one_sequence(), {});
  const LogitLens lens = logit_lens(model, s, one_sequence(), {Objective::kLogit, 5, 0, {}});
  for (std::int64_t t = 0; t < 6; ++t) {
    CHECK(lens.at(0, t).token == 5);
    CHECK(lens.at(0, t).probability == Approx(p.at({0, t, 5})).epsilon(1e-12));
    CHECK(std::abs(lens.at(0, t).probability - lens.at(1, t).probability) > 1e-6);
  }
  CHECK_THROWS_WITH(logit_lens(model, s, one_sequence(), {Objective::kLogit, 7, 0, {}}),
                    "logit_lens: token 7 is not one of the 7 tokens that the model predicts");
}

TEST_CASE("the contributions of all parts sum to the logit or the difference of logits") {
  const Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {2, 6, 5, 4, 0, 3}});
  for (const DType dtype : {float64, float32})
    for (auto [name, o] : studied_models()) {
      o.attention.dtype = dtype;
      const Transformer model = random_model(o);
      for (const Objective& wanted :
           {Objective{Objective::kDifference, 4, 2, {}}, Objective{Objective::kLogit, 4, 0, {1, 4}},
            margin(model, batch), margin(model, batch, {1, 5})}) {
        CAPTURE(name, dtype, wanted.kind);
        if (o.norm == NormPlacement::kPost) {
          CHECK_THROWS_WITH(logit_attribution(model, study(model, batch, wanted), wanted),
                            Contains("trained with norm pre or none"));
          continue;
        }
        const auto parts = logit_attribution(model, study(model, batch, wanted), wanted);
        double total = 0, magnitude = 0;
        for (const Evidence& part : parts) {
          total += part.effect.mean, magnitude += std::abs(part.effect.mean);
          CHECK(part.effect.sequences == 2);
        }
        const double value = mean(objective_values(model(batch.inputs), batch, wanted)).item();
        CHECK(std::abs(total - value) <= (dtype == float64 ? 1e-12 : 1e-5) * magnitude);
        const auto heads = std::count_if(parts.begin(), parts.end(), [](const Evidence& c) {
          return c.place.find('H') != std::string::npos;
        });
        CHECK(heads == 6);
      }
    }
}

TEST_CASE("without norms the contribution of a last-layer head equals minus its ablation") {
  Transformer::Options o = small_options();
  o.norm = NormPlacement::kNone, o.mlp = false;
  const Transformer model = random_model(o);
  const Objective wanted{Objective::kDifference, 4, 2, {}};
  std::size_t seen = 0;
  const Study s = study(model, one_sequence(), wanted);
  for (const Evidence& part : logit_attribution(model, s, wanted)) {
    if (!part.place.starts_with("L1H")) continue;
    const auto head = parse_heads("x", part.place, o.layers, o.attention.heads);
    CHECK(part.effect.mean == Approx(-ablate({model, one_sequence(), wanted}, components(head),
                                             replacement(model, one_sequence(), Ablation::kZero))
                                          .mean)
                                  .epsilon(1e-11));
    ++seen;
  }
  CHECK(seen == 3);
  CHECK_THROWS_AS(logit_attribution(model, s, {Objective::kLogit, 4, 0, {6}}), ValueError);
  CHECK_THROWS_WITH(logit_attribution(model, s, {}),
                    Contains("a loss, a log probability or log odds, which is not a sum of parts"));
  CHECK_THROWS_WITH(logit_attribution(model, s, {Objective::kLogProbability, 4, 0, {}}),
                    Contains("which is not a sum of parts"));
}

}  // namespace
