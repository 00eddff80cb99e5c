// Tests of roles: the keys of patterns, imposing a pattern, and roles of heads with written
// weights.
#include "nn/lab/study/roles.h"

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

TEST_CASE("the keys of patterns") {
  using Keys = std::vector<std::vector<Index>>;
  const std::vector<Index> tokens{4, 1, 4, 4, 1};
  CHECK(keys_of({Pattern::kPrevious}, tokens) == Keys{{}, {0}, {1}, {2}, {3}});
  CHECK(keys_of({Pattern::kBack, 3}, tokens) == Keys{{}, {}, {}, {0}, {1}});
  CHECK(keys_of({Pattern::kDuplicate}, tokens) == Keys{{}, {}, {0}, {0, 2}, {1}});
  CHECK(keys_of({Pattern::kInduction}, tokens) == Keys{{}, {}, {1}, {1, 3}, {2}});
  CHECK(keys_of({Pattern::kFirst}, tokens) == Keys{{}, {0}, {0}, {0}, {0}});
  CHECK(keys_of({Pattern::kCurrent}, tokens) == Keys{{}, {1}, {2}, {3}, {4}});
  CHECK(keys_of({Pattern::kDuplicate}, tokens, 2) == Keys{{}, {}, {}, {2}, {}});
  CHECK(Pattern{Pattern::kBack, 12}.name() == "12 back");
}

TEST_CASE("imposing a pattern gives equal weights on its keys, in the rows that have keys") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Batch batch = three_sequences();
    const BaseRun run(model, batch, kDiff);
    const HeadIndex head{1, 1};
    Probe probe;
    probe.replace(block_site(1, "attn.hook_pattern"), [&](const Tensor& A) {
      const Tensor y = contiguous(A.detach() + 0);
      for (Index b = 0; b < 3; ++b) {
        const auto tokens = select(batch.inputs, 0, b).to_vector<std::int64_t>();
        const auto keys = keys_of({Pattern::kDuplicate}, tokens, o.attention.window);
        for (Index i = 0; i < 6; ++i)
          for (Index j = 0; j < 6 && !keys[std::size_t(i)].empty(); ++j)
            y.mutable_data<double>()[((b * 3 + 1) * 6 + i) * 6 + j] =
                double(std::ranges::count(keys[std::size_t(i)], j)) /
                double(keys[std::size_t(i)].size());
      }
      return y;
    });
    const NoGrad guard;
    const auto values =
        to_doubles(objective_values(model(batch.inputs, {.probe = &probe}), batch, kDiff));
    const Effect imposed = impose(run, head, {Pattern::kDuplicate});
    for (std::size_t b = 0; b < 3; ++b)
      CHECK(std::abs(imposed.changes[b] - (values[b] - run.values[b])) <= 1e-12);
  }
}

// Returns a model whose head L0H0 attends to the token before: its keys and queries are positions.
Transformer previous_token_model() {
  Transformer::Options o{.vocab = 6,
                         .layers = 1,
                         .context = 6,
                         .attention = {.d_model = 12, .heads = 2, .d_head = 6, .bias = false}};
  o.attention.dtype = float64, o.mlp = false, o.norm = NormPlacement::kNone;
  Transformer model(o);
  const NoGrad guard;
  for (const NamedTensor& p : parameters(model)) fill_(p.tensor, 0);
  const auto set = [](const Tensor& x, Index i, Index j, double value) {
    x.mutable_data<double>()[i * x.size(1) + j] = value;
  };
  for (Index t = 0; t < 6; ++t) {
    set(model.tok.weight, t, t, 1), set(model.pos->weight, t, 6 + t, 1);
    set(model.head->weight, t, t, 4);
  }
  const AttentionWeights& w = model.blocks[0].attn.weights;  // rows: q0 q1 k0 k1 v0 v1, 6 each
  for (Index i = 0; i < 6; ++i) {
    if (i > 0) set(w.in_proj_weight, i - 1, 6 + i, 100);  // the query at i has the code of i - 1
    set(w.in_proj_weight, 12 + i, 6 + i, 1);
    set(w.in_proj_weight, 24 + i, i, 1), set(w.out_proj_weight, i, i, 2);
  }
  return model;
}

TEST_CASE(
    "a head that matters and attends to the token before has this role, and imposing keeps L") {
  const Transformer model = previous_token_model();
  std::vector<Sequence> sequences;
  Generator g(1);
  for (int n = 0; n < 24; ++n) {  // the target is the token before the current one
    Sequence s;
    for (int t = 0; t < 6; ++t) s.inputs.push_back(draw_below(6, g));
    for (int t = 0; t < 6; ++t) {
      s.targets.push_back(t > 0 ? s.inputs[std::size_t(t - 1)] : kIgnored);
      s.counted.push_back(t > 0);
    }
    sequences.push_back(s);
  }
  const DonorSample sample = with_donors(make_batch(sequences));
  const BaseRun run(model, sample.batch, {Objective::kLogLikelihood});
  const ComponentStudy s = study_components(run, sample.donors, kSmallestEffect);
  CHECK(s.judgement.counts == std::vector<bool>{true, false});  // L0H1 writes nothing
  CHECK(s.redundant().empty());
  const auto roles = roles_of_heads(run, s, nullptr);
  REQUIRE(roles.size() == 1);
  REQUIRE(roles[0].role);
  CHECK((roles[0].role->name() == "previous-token" && roles[0].score > 0.99));
  CHECK(std::abs(roles[0].imposed.mean) <= 1e-6);
  CHECK(roles[0].by_distance[0].first == 1);
  CHECK(roles_of_heads(run, s, nullptr, false).size() == 2);  // scores of all heads
  // The effect has the sign of a head that helps, and the opposite sign on the loss.
  const BaseRun loss(model, sample.batch, {Objective::kLoss});
  const double effect = ablate(loss, {{0, 0}}, replacements(model, sample.donors)).mean;
  CHECK((s.rows[0].effect.mean < -1 && std::abs(effect + s.rows[0].effect.mean) <= 1e-12));
  // A model that predicts no better than token frequencies has no roles.
  CHECK(roles_of_heads(run, study_components(run, sample.donors, HUGE_VAL), nullptr).empty());
}

}  // namespace
