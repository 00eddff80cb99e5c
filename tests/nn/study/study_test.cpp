// Tests of head scores on patterns with known scores, and of identities that the gradients of
// attention fulfill in a float64 model.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using namespace heed::autograd::testing;

constexpr std::int64_t kTokens[] = {0, 1, 2, 0, 1, 2};  // a block of three tokens, repeated once

TEST_CASE("a head that does exactly one thing has the score 1 for it") {
  const struct {
    std::int64_t (*key_of)(std::int64_t query);
    Quantity one, zero;
  } heads[] = {{[](std::int64_t i) { return i > 0 ? i - 1 : 0; }, kPreviousToken, kDuplicateToken},
               {[](std::int64_t i) { return i >= 3 ? i - 3 : i; }, kDuplicateToken, kInduction},
               {[](std::int64_t i) { return i >= 3 ? i - 2 : i; }, kInduction, kPreviousToken}};
  for (const auto& [key_of, one, zero] : heads) {
    std::vector<double> pattern(36, 0.0);
    for (std::int64_t i = 0; i < 6; ++i) pattern[std::size_t(i * 6 + key_of(i))] = 1;
    const HeadReport r = head_scores(pattern, kTokens);
    CHECK((r[one] == 1 && r[zero] == 0 && r[kEntropy] == 0));
  }
}

TEST_CASE(
    "weights on several copies are added; uniform rows have entropy log T; no repeat gives NaN") {
  const std::int64_t same[] = {7, 7, 7};
  const std::vector<double> third(9, 1.0 / 3);
  const HeadReport r = head_scores(third, same);
  CHECK(r[kEntropy] == Approx(std::log(3.0)));
  CHECK(r[kDuplicateToken] == Approx((1 + 2) / 3.0 / 2));  // queries 1 and 2 have copies
  const std::int64_t distinct[] = {1, 2, 3};
  CHECK(std::isnan(head_scores(third, distinct)[kInduction]));
  CHECK_THROWS_WITH(head_scores(third, kTokens), "head_scores: needs 6 x 6 weights, got 9");
}

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
  // Returns the logits, and the gradient of the loss with respect to each parameter, by name.
  std::map<std::string, Tensor> gradients(const ForwardContext& ctx = {}) {
    const Tensor logits = model.forward(one.inputs, ctx);
    backward(cross_entropy(logits, one.targets));
    std::map<std::string, Tensor> found{{"logits", logits.detach()}};
    for (const NamedTensor& p : parameters(model)) {
      found[p.name] = p.tensor.grad();
      p.tensor.zero_grad();
    }
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

// Returns the largest difference of corresponding entries of a and b, relative to the largest entry
// of their tensor in a.
double largest_difference(const std::map<std::string, Tensor>& a,
                          const std::map<std::string, Tensor>& b) {
  REQUIRE(a.size() == b.size());
  double error = 0;
  for (const auto& [name, x] : a) {
    INFO(name);
    const double difference = largest(x - b.at(name)) / largest(x);
    CHECK(std::isfinite(difference));
    error = std::max(error, difference);
  }
  return error;
}

TEST_CASE("a constant added to a row of scores changes no output and no gradient") {
  Studied t;
  const auto plain = t.gradients();
  const Tensor rows = 3.0 * randn({3, 8, 1}, float64), keys = randn({3, 1, 8}, float64);
  CHECK(largest_difference(plain, t.gradients({.bias = ScoreBias(rows)})) <= 1e-12);
  CHECK(largest_difference(plain, t.gradients({.bias = ScoreBias(keys)})) >
        1e-3);  // the bias differs within a row
  Probe probe;  // if scores are replaced, the fused kernel is not used
  for (const char* site : {"blocks.0.attn.hook_attn_scores", "blocks.1.attn.hook_attn_scores"})
    probe.replace(site, [&](const Tensor& scores) { return scores + rows; });
  CHECK(largest_difference(plain, t.gradients({.probe = &probe})) <= 1e-12);
}

TEST_CASE("permuted heads have permuted gradients") {
  Transformer::Options o = small_options();
  o.positions = Positions::kRope;  // without RoPE the gradient of b_K is only rounding error
  Studied t(o), permuted(o);
  const auto shuffle = [](const Tensor& x, int axis) {
    return index_select(x, axis, from_data(std::vector<std::int64_t>{2, 0, 1}, {3}));
  };
  const auto shuffled = [&](const AttentionWeights& w) {
    HeadWeights h = by_head(w, t.model.options.attention);
    for (Tensor* x : {&h.W_Q, &h.W_K, &h.W_V, &h.W_O, &h.b_Q, &h.b_K, &h.b_V}) *x = shuffle(*x, 0);
    return packed(h);
  };
  {
    const NoGrad guard;
    const auto from = parameters(t.model), to = parameters(permuted.model);
    for (std::size_t i = 0; i < from.size(); ++i) copy_(to[i].tensor, from[i].tensor);
    for (std::size_t l = 0; l < 2; ++l) {
      const AttentionWeights& w = t.model.blocks[l].attn.weights;
      init::normal(w.in_proj_bias, 0, 1);
      const AttentionWeights new_order = shuffled(w), into = permuted.model.blocks[l].attn.weights;
      copy_(into.in_proj_weight, new_order.in_proj_weight);
      copy_(into.in_proj_bias, new_order.in_proj_bias);
      copy_(into.out_proj_weight, new_order.out_proj_weight);
    }
  }

  auto before = t.gradients();
  const auto after = permuted.gradients();
  CHECK(largest_difference(before, after) > 1e-3);
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    Tensor &in = before[block + "qkv.weight"], &bias = before[block + "qkv.bias"],
           &out = before[block + "proj.weight"];
    const AttentionWeights g =
        shuffled({.in_proj_weight = in, .in_proj_bias = bias, .out_proj_weight = out});
    in = g.in_proj_weight, bias = g.in_proj_bias, out = g.out_proj_weight;
  }
  CHECK(largest_difference(before, after) <= 1e-12);

  auto inside = t.arrays({}), inside_after = permuted.arrays({});
  for (auto& [name, x] : inside) {
    if (name.find(".attn.") != std::string::npos) x = shuffle(x, x.size(1) == 3 ? 1 : 2);
    if (name.ends_with("scores"))  // tril() sets the -inf of masked scores to 0
      x = tril(x), inside_after[name] = tril(inside_after[name]);
  }
  CHECK(largest_difference(inside, inside_after) <= 1e-12);
}

TEST_CASE("the bias of the keys has gradient 0, except with RoPE") {
  // Without RoPE the bias b of the keys adds the constant q_i . b to row i of the scores. RoPE
  // rotates b by an angle that depends on the key's position, so that the term is not constant.
  for (const Positions positions : {Positions::kLearned, Positions::kRope}) {
    Transformer::Options o = small_options();
    o.positions = positions;
    Studied t(o);
    for (Block& block : t.model.blocks) init::normal(block.attn.weights.in_proj_bias, 0, 1);
    const auto all = t.gradients();
    for (const char* name : {"blocks.0.qkv.bias", "blocks.1.qkv.bias"}) {
      const Tensor g = all.at(name);  // [3 H d]: q, k, v
      const double keys = largest(slice(g, 0, 12, 24)) / largest(g);
      CAPTURE(name, positions, keys);
      CHECK((positions == Positions::kRope ? keys > 1e-3 : keys <= 1e-13));
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
  CHECK((s.heads.size() == 6 && HeadIndex(s.heads[4]) == HeadIndex{1, 1} && s.heads[0][kDv] > 0));
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
