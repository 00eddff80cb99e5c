// Tests of attention's invariants. The invariants hold in every variant of the model, checks of
// them do not change a run, and faults are found.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"
#include "tests/support/mutate_gradients.h"
#include "tests/support/runs.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using namespace heed::autograd::testing;
using Catch::Matchers::StartsWith;

RunConfig tiny_two_layers() {
  RunConfig c = preset("reverse");
  c.model.layers = 2, c.model.attention.d_model = 16, c.model.attention.heads = 4,
  c.model.context = 8, c.batch = 4, c.eval_batch = 8;
  c.steps = 4;
  return c;
}

struct Variant {
  std::string name;
  std::function<void(RunConfig&)> change;
};

// Returns changes of tiny_two_layers(): those listed here, and the models of variant_models() with
// and without dropout.
std::vector<Variant> variants() {
  using C = RunConfig;
  std::vector<Variant> list = {
      {"unchanged", [](C&) {}},
      {"no scale", [](C& c) { c.model.attention.scale = ScaleRule::kNone; }},
      {"1/d-head", [](C& c) { c.model.attention.scale = ScaleRule::kInvHead; }},
      {"1/sqrt-d-model", [](C& c) { c.model.attention.scale = ScaleRule::kInvSqrtModel; }},
      {"scores of hundreds", [](C& c) { c.model.attention.scale = 300.0; }},
      {"two heads of keys", [](C& c) { c.model.attention.kv_heads = 2; }},
      {"window of one", [](C& c) { c.model.attention.window = 1; }},
      {"dropout", [](C& c) { c.model.attention.dropout = 0.3; }},
      {"dropout, sink, window",
       [](C& c) {
         c.model.attention.dropout = 0.5, c.model.attention.sink = Sink::kZero,
         c.model.attention.window = 4;
       }},
      {"RoPE", [](C& c) { c.model.positions = Positions::kRope; }},
      {"learned positions", [](C& c) { c.model.positions = Positions::kLearned; }},
      {"MLP, norm after", [](C& c) { c.model.mlp = true, c.model.norm = NormPlacement::kPost; }},
      {"shards", [](C& c) { c.shards = 2, c.model.attention.dropout = 0.2; }},
      {"float64",
       [](C& c) { c.model.attention.dtype = float64, c.model.attention.dropout = 0.2; }}};
  for (const auto& [name, o] : variant_models(tiny_two_layers().model))
    for (const double dropout : {0.0, 0.4})
      list.push_back({name + (dropout > 0 ? ", dropout" : ""),
                      [o, dropout](C& c) { c.model = o, c.model.attention.dropout = dropout; }});
  return list;
}

TEST_CASE("invariants hold in every variant, and checking them changes no bit of a run") {
  for (const Variant& v : variants()) {
    CAPTURE(v.name);
    RunConfig c = tiny_two_layers();
    v.change(c);
    Trainer plain(c);
    c.check_invariants = 1;
    Trainer checked(c);
    for (int i = 0; i < 3; ++i) CHECK(plain.step().loss == checked.step().loss);
    CHECK(hash_of(plain.snapshot()) == hash_of(checked.snapshot()));
  }
}

TEST_CASE("invariants hold over several blocks of keys, and with large and tiny weights") {
  for (const double scale : {1.0, 30.0, 1e-4})
    for (const Sink sink : {Sink::kNone, Sink::kLearned})
      for (const double cap : {0.0, 20.0}) {
        CAPTURE(scale, int(sink), cap);
        const Transformer model = random_model({.vocab = 5,
                                                .layers = 1,
                                                .context = 900,
                                                .attention = {.d_model = 16,
                                                              .heads = 2,
                                                              .scale = scale,
                                                              .soft_cap = cap,
                                                              .sink = sink,
                                                              .dropout = 0.1},
                                                .mlp = false});
        Generator g(2);
        Probe probe;
        record_invariants(probe, model);
        const Tensor ids = randint(0, 5, {1, 900}, g);
        backward(cross_entropy(
            model.forward(ids, {.training = true, .generator = &g, .probe = &probe}), ids));
        CHECK(broken_invariant(probe, model) == "");
      }
}

// Arrays of one layer, recorded in a forward and backward pass.
struct Recorded {
  AttentionArrays x;
  MultiHeadAttention::Options options;

  explicit Recorded(bool sink = false, std::int64_t kv_heads = 4) {
    Generator g(5);
    const MultiHeadAttention layer({.d_model = 16,
                                    .heads = 4,
                                    .kv_heads = kv_heads,
                                    .sink = sink ? Sink::kLearned : Sink::kNone,
                                    .window = 6,
                                    .causal = true,
                                    .dropout = 0.3},
                                   g);
    Probe probe;
    const std::string sites[] = {"hook_attn_scores", "hook_pattern", "hook_pattern_dropped",
                                 "hook_z", "hook_v"};
    for (const std::string& site : sites) probe.record(site);
    const Tensor y =
        layer(randn({3, 8, 16}, float32, g), {.training = true, .generator = &g, .probe = &probe});
    backward(y, {.grad_output = randn(y.shape(), float32, g)});
    for (const std::string& site : sites)
      for (const std::string& name : {site, site + "_grad"}) x[name] = probe.value(name);
    options = layer.options;
  }
  std::string broken() const { return broken_invariant(x, 1, options); }
  // Returns the text about the broken invariant after `change` is applied to one element of one
  // array.
  std::string broken(const std::string& array, const Dims& at,
                     const std::function<float(float)>& change) const {
    AttentionArrays faulty = x;
    faulty[array] = contiguous(x.at(array) * 1.0);
    float& entry = faulty[array].mutable_data<float>()[place(at, x.at(array).shape())];
    entry = change(entry);
    return broken_invariant(faulty, 1, options);
  }
  // Returns the text about the broken invariant after one element grows by 1/1000 of the largest
  // finite |element| of the array.
  std::string nudged(const std::string& array, const Dims& at) const {
    const auto by = float(1e-3 * largest(masked_fill(x.at(array), eq(x.at(array), -kInf), 0)));
    return broken(array, at, [by](float v) { return v + by; });
  }
};

TEST_CASE("a broken invariant is named with layer, head, row and both values") {
  for (const bool sink : {false, true}) {
    const Recorded r(sink);
    REQUIRE(r.broken() == "");
    const auto tiny_weight = [](float) { return 1e-30f; };
    CHECK(r.broken("hook_pattern", {1, 2, 3, 5}, tiny_weight) ==
          "L1H2, query 3 of sequence 1: the weight of key 5, which is masked, is 1e-30, needs 0");
    CHECK(r.broken("hook_pattern", {1, 2, 7, 1}, tiny_weight) ==  // the window masks key 1
          "L1H2, query 7 of sequence 1: the weight of key 1, which is masked, is 1e-30, needs 0");
    CHECK(r.broken("hook_attn_scores_grad", {2, 0, 0, 7}, tiny_weight) ==
          "L1H0, query 0 of sequence 2: dL/dS of key 7, which is masked, is 1e-30, needs 0");
    CHECK_THAT(r.nudged("hook_attn_scores_grad", {2, 3, 6, 4}),
               StartsWith("L1H3, query 6 of sequence 2: the sum of dL/dS over keys is "));
    CHECK_THAT(r.nudged("hook_attn_scores_grad", {2, 3, 6, 4}),
               Contains(sink ? " (minus the sink's) within " : ", needs 0 within "));
    CHECK_THAT(r.nudged("hook_pattern_grad", {0, 1, 4, 4}),
               StartsWith("L1H1, query 4 of sequence 0: the sum of A * dL/dA is "));
    CHECK_THAT(r.nudged("hook_pattern_grad", {0, 1, 4, 4}), Contains(", needs dL/dO . O = "));
    CHECK(r.nudged("hook_pattern_grad", {0, 1, 4, 5}).empty());  // masked dL/dA is not checked
    // The shape of z is [B, T, H, d].
    CHECK_THAT(r.nudged("hook_z", {2, 7, 3, 0}),
               StartsWith(sink ? "L1H3, query 7 of sequence 2: the sum of dL/dS "
                               : "L1H3, query 7 of sequence 2: the sum of A * dL/dA is "));
    CHECK_THAT(r.nudged("hook_v_grad", {1, 4, 2, 3}),
               StartsWith("L1H2, key 4 of sequence 1: column 3 of dL/dv is "));
    CHECK_THAT(r.nudged("hook_pattern_dropped", {1, 2, 6, 4}),
               StartsWith("L1H2, key 4 of sequence 1: column 0 of dL/dv is "));
  }
  const Recorded shared(false, 2);
  REQUIRE(shared.broken() == "");
  CHECK_THAT(shared.nudged("hook_v_grad", {0, 7, 1, 0}),
             StartsWith("L1H2 to L1H3, key 7 of sequence 0: column 0 of dL/dv is "));
}

TEST_CASE("NaN and infinities fail at their place") {
  const Recorded r;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto put = [bad](float) { return bad; };
    for (const char* array : {"hook_attn_scores", "hook_attn_scores_grad", "hook_pattern",
                              "hook_pattern_grad", "hook_pattern_dropped"}) {
      const std::string text = r.broken(array, {1, 2, 5, 3}, put);
      INFO(text);
      CHECK(text.starts_with("L1H2, query 5 of sequence 1: "));
    }
    for (const char* array : {"hook_z", "hook_z_grad"})
      CHECK_THAT(r.broken(array, {1, 5, 2, 3}, put), StartsWith("L1H2, query 5 of sequence 1: "));
    CHECK_THAT(r.broken("hook_v_grad", {1, 5, 2, 3}, put),
               StartsWith("L1H2, key 5 of sequence 1: column 3 of dL/dv is "));
  }
}

TEST_CASE("a value that a probe replaces breaks an invariant") {
  const Transformer model = random_model(
      {.vocab = 5, .context = 8, .attention = {.d_model = 16, .heads = 2}, .mlp = false});
  Generator g(2);
  const Tensor ids = randint(0, 5, {2, 8}, g);
  const auto broken = [&](const std::string& site, const Probe::Replace& f) {
    Probe probe;
    record_invariants(probe, model);
    probe.replace(site, f);
    backward(cross_entropy(model.forward(ids, {.training = true, .probe = &probe}), ids));
    return broken_invariant(probe, model);
  };
  const auto at = [](const Tensor& x, const Dims& index) {  // 1 at `index`, 0 elsewhere
    Tensor one = zeros(x.shape(), x.dtype());
    one.mutable_data<float>()[place(index, x.shape())] = 1;
    return one;
  };
  CHECK(broken("blocks.1.attn.hook_pattern", [](const Tensor& p) { return p * 1.0; }) == "");
  CHECK_THAT(broken("blocks.1.attn.hook_pattern",
                    [&](const Tensor& p) {
                      return p + at(p, {1, 0, 2, 4}) * 0.01;
                    }),
             StartsWith("L1H0, query 2 of sequence 1: the weight of key 4, which is masked, is "));
  CHECK_THAT(broken("blocks.0.attn.hook_z",
                    [&](const Tensor& z) {
                      return z + at(z, {0, 5, 1, 2}) * 0.1;
                    }),
             StartsWith("L0H1, query 5 of sequence 0: the sum of A * dL/dA is "));
}

TEST_CASE("a step that breaks an invariant throws, and weights and streams do not change") {
  RunConfig c = tiny_two_layers();
  c.model.attention.window = 3, c.check_invariants = 2, c.model.attention.dropout = 0.1;
  Trainer t(c), twin(c);
  t.step(), twin.step();
  t.model.blocks[1].attn.options.window = 0;  // the layer's window differs from the model's
  CHECK_THAT(error_of_step(t),
             StartsWith("check-invariants: step 2, L1H0, query 3 of sequence 0: the "
                        "weight of key 0, which is masked, is "));
  CHECK(t.steps_done == 1);
  t.model.blocks[1].attn.options.window = 3;
  CHECK(t.step().loss == twin.step().loss);
  t.model.blocks[1].attn.options.window = 0;
  CHECK(error_of_step(t).empty());  // step 3 is not checked
  CHECK(!error_of_step(t).empty());
}

TEST_CASE("a wrong backward of attention ends the step") {
  const auto with_mutation = [](RunConfig c, const std::string& op, std::size_t input,
                                const std::function<Tensor(const Tensor&)>& change) {
    c.check_invariants = 1;
    Trainer t(c);
    const MutateGradients wrong([&](const Op& o, std::size_t i, const Tensor& g, const Shape&) {
      return o.name() == op && i == input ? change(g) : g;
    });
    return error_of_step(t);
  };
  RunConfig c = tiny_two_layers();
  const auto larger = [](const Tensor& g) { return g * 1.001; };
  CHECK(with_mutation(c, "attention", 2, [](const Tensor& g) { return g; }).empty());
  CHECK_THAT(with_mutation(c, "attention", 2, larger), Contains(" of dL/dv is "));
  c.shards = 2;
  CHECK_THAT(with_mutation(c, "attention", 2, larger), Contains(" of dL/dv is "));
  c.model.attention.soft_cap = 3;
  CHECK_THAT(with_mutation(c, "softmax", 0, [](const Tensor& g) { return g + 1e-4; }),
             Contains("dL/dS of key 1, which is masked, is 0.0001"));
}

}  // namespace
