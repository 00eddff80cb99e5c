// Tests of edges: identities between cuts of edges and cuts of components, a hand-written edge, and
// predictions compared with small changes.
#include "nn/lab.h"
#include "nn/study/edge_cuts.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// A run of a model on three sequences, and the replacements of the model's outputs.
struct Replaced {
  explicit Replaced(const Transformer::Options& o, Ablation how = Ablation::kMean)
      : model(random_model(o)), run(model, batch, kDiff), r(replacement(model, batch, how)) {}

  std::vector<Edge> edges(const std::string& text) const {
    return parse_edges("x", text, model.options);
  }
  // Returns replacements that move each output by the fraction `step` towards its value in r.
  Replacement near(double step) const {
    Replacement moved = r;
    const auto pass = record_forward(model, batch.inputs, {"attn.hook_z", "hook_resid_pre"});
    for (std::size_t l = 0; l < moved.z.size(); ++l)
      moved.z[l] = pass.at[0][l] + step * (r.z[l] - pass.at[0][l]);
    moved.embed = pass.at[1][0] + step * (r.embed - pass.at[1][0]);
    return moved;
  }

  Batch batch = three_sequences();
  Transformer model;
  BaseRun run;
  Replacement r;
};

// Returns the studied_models() that have edges.
std::vector<NamedModel> models_with_edges() {
  std::vector<NamedModel> models = studied_models();
  std::erase_if(models, [](const NamedModel& m) { return m.options.norm == NormPlacement::kPost; });
  return models;
}

// Returns the edges from a component to all receivers after it.
std::vector<Edge> edges_from(const Component& sender, const Transformer::Options& o) {
  std::vector<Edge> edges = all_edges(o);
  std::erase_if(edges, [&](const Edge& e) { return !(e.sender == sender); });
  return edges;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

void check_equal(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= tolerance);
}

TEST_CASE("the edges from components to all their receivers together are the components' cut") {
  for (const auto& [name, o] : models_with_edges())
    for (const Ablation how : {Ablation::kMean, Ablation::kZero, Ablation::kResample}) {
      const Replaced x(o, how);
      const EdgeCutter cutter(x.run, x.r);
      const double tolerance = 1e-12 * largest_of(x.run.values);
      const MeasuredHeads measured = measure_heads(x.run, x.r, EffectParts::kMeasured);
      for (const Edge& to_logits : all_edges(x.model.options)) {
        if (to_logits.receiver.kind != Receiver::kLogits) continue;
        const Component& c = to_logits.sender;
        CAPTURE(name, component_name(c), int(how));
        const std::vector<Edge> edges = edges_from(c, x.model.options);
        check_equal(cutter.values(edges), values_without(x.run, {c}, x.r), tolerance);
        // The predictions of a component's edges sum to the prediction of its cut.
        double sum = 0, whole = 0;
        for (const Effect& e : cutter.predictions(edges)) sum += e.mean;
        if (c.kind == Component::kEmbed) continue;
        for (const Evidence& e : measured.effects)
          if (e.place == component_name(c)) whole = e.predicted();
        CHECK(std::abs(sum - whole) <= tolerance);
        CHECK(std::abs(cutter.cut(edges).predicted() - whole) <= tolerance);
      }
      std::vector<Component> senders{{0, 1}, {1, 0}};
      if (o.mlp) senders.push_back(Component::mlp(0));
      std::vector<Edge> edges;
      for (const Component& c : senders)
        for (const Edge& e : edges_from(c, x.model.options)) edges.push_back(e);
      check_equal(cutter.values(edges), values_without(x.run, senders, x.r), tolerance);
    }
}

TEST_CASE("without a norm and a second layer, edges into values and logits are predicted exactly") {
  Transformer::Options o = small_options();
  o.layers = 1, o.mlp = false, o.norm = NormPlacement::kNone;
  const Replaced x(o);
  const EdgeCutter cutter(x.run, x.r);
  for (const char* text : {"L0H0:logits", "L0H2:logits", "embed:V:L0H1", "embed:logits"}) {
    CAPTURE(text);
    const Evidence cut = cutter.cut(x.edges(text));
    CHECK(std::abs(cut.effect.mean) > 1e-4);
    CHECK(std::abs(cut.effect.mean - cut.predicted()) <= 1e-12 * largest_of(x.run.values));
  }
}

TEST_CASE("a cut of an edge into keys equals the same replacement written by hand") {
  const Replaced x(small_options(), Ablation::kResample);
  const NoGrad guard;
  const auto z = record_forward(x.model, x.batch.inputs, {"attn.hook_z"}).at[0];
  // Returns the change of the stream if the output of a head before W_O changes.
  const auto written = [&](std::size_t layer, std::int64_t head, const Tensor& changed) {
    const MultiHeadAttention& a = x.model.blocks[layer].attn;
    const Tensor W_O = by_head(a.weights, a.options).W_O;
    return matmul(select(changed - z[layer], 2, head), select(W_O, 0, head));
  };
  const auto values = [&](Probe& probe) {
    return to_doubles(objective_values(x.model(x.batch.inputs, {.probe = &probe}), x.batch, kDiff));
  };
  // `stream` records the keys of L1H1 in a run in which only the stream before block 1 changes.
  Probe stream, edge;
  stream.replace("blocks.1.hook_resid_pre",
                 [&](const Tensor& y) { return y + written(0, 2, x.r.z[0]); });
  stream.record("blocks.1.attn.hook_k");
  values(stream);
  const Tensor is_head = from_data(std::vector<bool>{false, true, false}, {3, 1});
  edge.replace("blocks.1.attn.hook_k", [&](const Tensor& k) {
    return where(is_head, stream.value("blocks.1.attn.hook_k"), k);
  });
  const EdgeCutter cutter(x.run, x.r);
  check_equal(cutter.values(x.edges("L0H2:K:L1H1")), values(edge), 1e-12);
}

TEST_CASE("a small change of the sender's output changes L as predicted, along every edge") {
  for (const auto& [name, o] : models_with_edges()) {
    const Replaced x(o);
    const double step = 1e-5;
    const Replacement near = Replaced(o, Ablation::kResample).near(step);
    std::string texts =
        "L0H1:Q:L1H0,L0H1:K:L1H1,L0H1:V:L1H2,L0H1:logits,embed:Q:L0H2,embed:V:L1H0,embed:K:L0H1";
    if (o.mlp) texts += ",L0H2:L0MLP,embed:L1MLP,L0H0:L1MLP";
    const std::vector<Edge> edges = x.edges(texts);
    const EdgeCutter cutter(x.run, near);
    const std::vector<Effect> predicted = cutter.predictions(edges);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      CAPTURE(name, edge_name(edges[i]));
      const double effect = effect_of(x.run.changes(cutter.values({edges[i]}))).mean;
      CHECK(std::abs(effect - predicted[i].mean) / step <=
            1e-3 * std::abs(predicted[i].mean / step) + 1e-5);
      CHECK(std::abs(cutter.cut({edges[i]}).predicted() - predicted[i].mean) <= 1e-15);
    }
  }
}

TEST_CASE("the edges with the largest predictions are measured and sorted by their effects") {
  Transformer::Options o = small_options();
  o.attention.kv_heads = 1;
  const Replaced x(o);
  const EdgeCutter cutter(x.run, x.r);
  const std::vector<Edge> edges = all_edges(x.model.options);
  // Block 0: 5 receivers (3 Q, K, V) of 1 sender, an MLP of 4. Block 1: of 5 and 8. Logits: of 9.
  CHECK(edges.size() == 5 + 4 + 5 * 5 + 8 + 9);
  const auto largest = cutter.largest(edges, 7);
  REQUIRE(largest.size() == 7);
  for (std::size_t i = 1; i < 7; ++i)
    CHECK(std::abs(largest[i - 1].effect.mean) >= std::abs(largest[i].effect.mean));
  double smallest = HUGE_VAL;
  for (const Evidence& c : largest) smallest = std::min(smallest, std::abs(c.predicted()));
  std::size_t larger = 0;
  for (const Effect& e : cutter.predictions(edges)) larger += std::abs(e.mean) >= smallest;
  CHECK(larger == 7);
  CHECK(largest[0].effect.mean == cutter.cut(x.edges(largest[0].place)).effect.mean);
  // With shared keys, the K of every head of the group is the same receiver.
  const auto text = [&](const char* edge) { return cutter.values(x.edges(edge)); };
  CHECK(text("L0H1:K:L1H0") == text("L0H1:K:L1H2"));
  CHECK(text("L0H1:Q:L1H0") != text("L0H1:Q:L1H2"));
  CHECK_THROWS_WITH(x.edges("L0H1:K:L1H0,L0H1:K:L1H2"), "x: names L0H1:K:L1H2 twice");
}

TEST_CASE("edges are parsed; the error for another text has an example") {
  const Transformer::Options o = random_model(small_options()).options;
  for (const char* text : {"L0H0:K:L1H1", "embed:L0MLP", "L0MLP:logits"})
    CHECK(edge_name(parse_edges("x", text, o)[0]) == text);
  CHECK(parse_edges("x", "embed:logits,L0H0:logits", o).size() == 2);
  const auto fails = [&](const char* text, const char* message) {
    CHECK_THROWS_WITH(parse_edges("x", text, o), message);
  };
  fails("L0H0", "x: 'L0H0' has no receiver; write an edge as L0H0:K:L1H1");
  fails("L0H0:K", "x: 'L0H0:K' ends with K; write the head that reads: L0H0:K:L1H1");
  fails("L0H0:L1H1",
        "x: 'L0H0:L1H1': 'L1H1' reads through its queries, keys or values; write Q, K "
        "or V before it: L0H0:K:L1H1");
  fails("L0H0:K:L1MLP", "x: 'L0H0:K:L1MLP': Q, K and V belong to a head, got 'L1MLP'");
  fails("L0H0:K:L0H1", "x: 'L0H0:K:L0H1': L0H1.K cannot read L0H0, which does not come before it");
  fails("L1MLP:L1MLP", "x: 'L1MLP:L1MLP': L1MLP cannot read L1MLP, which does not come before it");
  fails("L0H0:K:L1H1:logits",
        "x: 'L0H0:K:L1H1:logits': an edge has one receiver; remove what follows L1H1");
  fails("L0H0:K:L2H0", "x: 'L2H0' is not a head of this model, which has L0H0 to L1H2");
  fails("L0H0:logits,L0H0:logits", "x: names L0H0:logits twice");
  for (const char* text : {"", ":", "L0H0:", "L0H0::L1H1", "L0H0:k:L1H1", "logits", "L0H0:X:L1H1"})
    CHECK_THROWS_AS(parse_edges("x", text, o), ValueError);

  Transformer::Options post = small_options();
  post.norm = NormPlacement::kPost;
  const Replaced x(post);
  CHECK_THROWS_WITH(EdgeCutter(x.run, x.r), Contains("trained with norm pre or none"));
}

}  // namespace
