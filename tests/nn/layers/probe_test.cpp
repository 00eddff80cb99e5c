// Tests of nn::Probe. Recording does not change a bit of a training step, and the gradient of a
// site predicts the effect of a replacement. fused_attention_test.cpp compares the values that the
// kernel gives with those of public ops.
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
namespace autograd = heed::autograd;
using autograd::testing::same_bits;

MultiHeadAttention layer() {
  Generator g(1);
  return MultiHeadAttention({.d_model = 12, .heads = 3, .causal = true}, g);
}

TEST_CASE("recording uses the fused kernel, and a replacement does not") {
  const MultiHeadAttention attention = layer();
  const Tensor x = randn({1, 4, 12});
  const auto is_fused = [&](Probe& probe) {
    return autograd::testing::has_op(attention(x, {.probe = &probe}), "attention");
  };
  Probe recorder, replacer;
  recorder.record("hook_pattern").record("hook_q");
  CHECK(is_fused(recorder));
  replacer.replace("hook_pattern", [](const Tensor& p) { return zeros_like(p); });
  CHECK(!is_fused(replacer));
  CHECK(recorder.value("hook_pattern").at({0, 0, 0, 0}) == 1);
  CHECK(!recorder.value("hook_pattern").requires_grad());
}

TEST_CASE("errors for sites without a recorded value, forward pass or backward pass") {
  const MultiHeadAttention attention = layer();
  const Tensor x = randn({1, 4, 12});
  Probe probe;
  probe.record("hook_pattern");
  CHECK_THROWS_WITH(probe.value("hook_pattern"),
                    "probe: no forward pass has run with this probe; give it to a forward pass");
  attention(x, {.probe = &probe});
  const std::string nearest =
      "probe: no forward pass reached 'hook_patern'; the nearest site is 'hook_pattern'";
  CHECK_THROWS_WITH(probe.value("hook_patern"), nearest);
  CHECK_THROWS_WITH(probe.value("hook_attn_scores"),
                    "probe: 'hook_attn_scores' was not recorded; call "
                    "record(\"hook_attn_scores\") before the forward pass");
  CHECK_THROWS_WITH(probe.value("hook_pattern_grad"),
                    "probe: no backward pass reached 'hook_pattern'; call backward()");
  CHECK(probe.sites() == std::vector<std::string>{"hook_attn_scores", "hook_attn_scores_raw",
                                                  "hook_k", "hook_pattern", "hook_pattern_dropped",
                                                  "hook_q", "hook_v", "hook_z"});
  // A misspelled site would change nothing, so the forward pass throws.
  Probe recorder, replacer;
  recorder.record("hook_patern");
  CHECK_THROWS_WITH(attention(x, {.probe = &recorder}), nearest);
  replacer.replace("hook_patern", [](const Tensor& p) { return p; });
  CHECK_THROWS_WITH(attention(x, {.probe = &replacer}), nearest);
  CHECK_THROWS_WITH(recorder.record("hook_q_grad"),
                    "probe: 'hook_q_grad' is a gradient, not a site; record the site instead, and "
                    "read its gradient after a backward pass");
}

// A model, one batch, its loss and the gradients of all parameters.
struct Trained {
  Generator g{7};
  Transformer model{
      {.vocab = 5,
       .layers = 2,
       .context = 6,
       .attention = {.d_model = 8, .heads = 2, .dropout = 0.2, .dtype = autograd::float64}},
      g};
  Tensor ids = randint(0, 5, {2, 6}, g), targets = randint(0, 5, {2, 6}, g);

  Tensor loss(Probe* probe) const {
    Generator dropout(8);
    return cross_entropy(
        model.forward(ids, {.training = true, .generator = &dropout, .probe = probe}), targets);
  }
  std::vector<Tensor> grads(Probe* probe) const {
    std::vector<Tensor> wanted;
    for (const NamedTensor& p : parameters(model)) wanted.push_back(p.tensor);
    return grad(loss(probe), wanted);
  }
  std::vector<std::string> sites() const {
    Probe probe;
    loss(&probe);
    return probe.sites();
  }
};

TEST_CASE("every site of a model can be recorded without changing a bit of a training step") {
  const Trained t;
  const std::vector<std::string> sites = t.sites();
  // The sites are hook_embed and, in each of 2 blocks, 5 of the residual stream and 8 of attention.
  CHECK(sites.size() == 1 + 2 * 13);
  Probe probe;
  for (const std::string& site : sites) probe.record(site);
  const auto without = t.grads(nullptr), recorded = t.grads(&probe);
  for (std::size_t i = 0; i < without.size(); ++i) CHECK(same_bits(without[i], recorded[i]));
  CHECK(same_bits(t.loss(nullptr), t.loss(&probe)));
  for (const std::string& site : sites) CHECK(probe.value(site).numel() > 0);
}

TEST_CASE("every site of a model can be replaced, and its gradient predicts the effect") {
  const Trained t;
  for (const std::string& site : t.sites()) {
    CAPTURE(site);
    Probe reader;
    reader.record(site);
    const double loss = t.loss(&reader).item();
    t.grads(&reader);
    const Tensor value = reader.value(site), gradient = reader.value(site + "_grad");
    CHECK(gradient.shape() == value.shape());
    // If the value changes by h * u, the loss changes by about h * <gradient, u>. u is 0 where the
    // value is -inf, so masked scores do not change.
    Generator g(9);
    const Tensor u = masked_fill(randn(value.shape(), value.dtype(), g), eq(value, -kInf), 0);
    const auto loss_at = [&](double h) {
      Probe probe;
      probe.replace(site, [&](const Tensor& x) { return x + u * h; });
      return t.loss(&probe).item();
    };
    const double h = 1e-5, slope = (loss_at(h) - loss_at(-h)) / (2 * h);
    const double predicted = sum(gradient * u).item();
    CHECK(std::abs(loss_at(0) - loss) <= 1e-12);
    INFO(slope << " measured, " << predicted << " predicted");
    // The second term of the bound is the rounding error of the difference of two losses.
    CHECK(std::abs(slope - predicted) <= 1e-7 * std::abs(predicted) + loss * 1e-16 / h);
    CHECK(std::abs(predicted) > 1e-6);
  }
}

TEST_CASE("hook_attn_out and hook_mlp_out are the terms added to the stream") {
  using P = NormPlacement;
  for (const P norm : {P::kPre, P::kPost, P::kNone})
    for (const bool mlp : {true, false}) {
      CAPTURE(int(norm), mlp);
      Generator g(3), dropout(5);
      const Block block({.attention = {.d_model = 8, .heads = 2, .causal = true, .dropout = 0.4},
                         .mlp = mlp,
                         .norm = norm},
                        g);
      Probe probe;
      const std::vector<std::string> added =
          mlp ? std::vector<std::string>{"hook_attn_out", "hook_mlp_out"}
              : std::vector<std::string>{"hook_attn_out"};
      std::vector<std::string> stream = {"hook_resid_pre", "hook_resid_post"};
      if (mlp) stream.insert(stream.begin() + 1, "hook_resid_mid");
      for (const std::string& site : added) probe.record(site);
      for (const std::string& site : stream) probe.record(site);
      const Tensor y = block(randn({2, 5, 8}, float32, g).requires_grad_(),
                             {.training = true, .generator = &dropout, .probe = &probe});
      grad(sum(y * y), {block.attn.weights.out_proj_weight});
      CHECK(same_bits(probe.value("hook_resid_post"), y.detach()));
      for (std::size_t i = 0; i < added.size(); ++i) {
        const Tensor term = probe.value(added[i]);
        // Dropout sets about 32 of the 80 elements to 0.
        CHECK(sum(to(eq(term, 0.0), float32)).item() > 10);
        const Tensor total = probe.value(stream[i]) + term;
        const Tensor after = norm == P::kPost ? (*(i == 0 ? block.ln1 : block.ln2))(total) : total;
        CHECK(same_bits(probe.value(stream[i + 1]), after.detach()));
        if (norm != P::kPost)
          CHECK(same_bits(probe.value(added[i] + "_grad"), probe.value(stream[i + 1] + "_grad")));
      }
      CHECK(probe.sites().size() == 8 + added.size() + stream.size());
    }
}

}  // namespace
