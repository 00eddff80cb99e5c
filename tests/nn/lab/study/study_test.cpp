// Tests of the arrays of a study: dL/dS, the value of the study, and errors.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using namespace heed::autograd::testing;

struct Studied {
  Transformer model;
  Batch one;
  explicit Studied(const Transformer::Options& o = small_options()) : model(o) {
    one = batch_of({{0, 3, 1, 3, 6, 2, 1, 3}});
  }
  std::map<std::string, Tensor> arrays(const Objective& o) {
    std::map<std::string, Tensor> found;
    for (const NamedTensor& a : to_named(study(model, one, o))) found[a.name] = a.tensor;
    return found;
  }
};

TEST_CASE("dL/dS: rows sum to 0, masked entries are 0, and it is A (dL/dA - dO . O)") {
  Studied t;
  for (const Objective& o : {Objective{}, Objective{Objective::kLogit, 4, 0, {7}},
                             Objective{Objective::kDifference, 4, 2, {5}}}) {
    auto x = t.arrays(o);
    for (const std::string layer : {"blocks.0.attn.", "blocks.1.attn."}) {
      const Tensor a = x[layer + "hook_pattern"], da = x[layer + "hook_pattern_grad"],
                   ds = x[layer + "hook_attn_scores_grad"];
      const double scale = std::max(largest(ds), 1e-12);
      CHECK(largest(ds) > 0);
      CHECK(largest(sum(ds, {-1})) <= 1e-12 * scale);
      CHECK(largest(ds - tril(ds)) == 0);
      const auto by_head = [&](const char* site) { return permute(x[layer + site], {0, 2, 1, 3}); };
      const Tensor dz = by_head("hook_z_grad");
      const Tensor delta = sum(dz * by_head("hook_z"), {-1}), rows = sum(a * da, {-1});
      CHECK(largest(rows - delta) <= 1e-12 * std::max(largest(delta), 1e-12));
      CHECK(largest(ds - a * (da - unsqueeze(rows, -1))) <= 1e-12 * scale);
      const Tensor dv = by_head("hook_v_grad");  // A^T dO
      CHECK(largest(matmul(mT(a), dz) - dv) <= 1e-12 * std::max(largest(dv), 1e-12));
    }
  }
}

TEST_CASE("the value of a study is that of the objective, and .grad does not change") {
  Studied t;
  const Tensor logits = t.model.forward(t.one.inputs);
  const Study s = study(t.model, t.one, {Objective::kDifference, 4, 2, {5}});
  CHECK(s.value == Approx(logits.at({0, 5, 4}) - logits.at({0, 5, 2})).epsilon(1e-12));
  const Tensor loss = cross_entropy(logits, t.one.targets);
  CHECK(study(t.model, t.one, {}).value == Approx(loss.item()).epsilon(1e-12));
  for (const NamedTensor& p : parameters(t.model)) CHECK(!p.tensor.grad().defined());
  // The study must also not change .grad between backward() and the step of the optimizer, where a
  // training callback may call it.
  backward(loss);
  const auto gradients = [&] {
    std::vector<std::vector<double>> all;
    for (const NamedTensor& p : parameters(t.model)) all.push_back(values(p.tensor.grad()));
    return all;
  };
  const auto before = gradients();
  study(t.model, t.one, {});
  CHECK(gradients() == before);
}

TEST_CASE("an invalid objective is an error that names the position, the token or the target") {
  Studied t;
  CHECK_THROWS_WITH(study(t.model, t.one, {Objective::kLogit, 4, 0, {8}}),
                    "study: position 8 is outside the sequence of 8");
  CHECK_THROWS_WITH(study(t.model, t.one, {Objective::kLogit, 7, 0, {0}}),
                    "study: token 7 is not one of the 7 tokens that the model predicts");
  Sequence s;
  s.inputs = {1};
  s.targets = {kIgnored};
  s.counted = {false};
  CHECK_THROWS_WITH(study(t.model, make_batch({s}), {}),
                    Contains("no target, so the loss is undefined"));
}

}  // namespace
