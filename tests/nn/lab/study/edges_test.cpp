// Tests of edges: identities between edges, components and cells, and names.
#include "nn/lab.h"
#include "nn/lab/study/edge_effects.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

// A run of a model on three sequences, with donors.
struct Replaced {
  explicit Replaced(const Transformer::Options& o)
      : model(random_model(o)), run(model, batch, kDiff), replaced(replacements(model, donors)) {}

  std::vector<Edge> edges(const std::string& text) const {
    return parse_edges("x", text, model.options);
  }
  // Returns the edges for which f(edge) is true.
  template <class F>
  std::vector<Edge> all(const F& f) const {
    std::vector<Edge> edges = all_edges(model.options);
    std::erase_if(edges, [&](const Edge& e) { return !f(e); });
    return edges;
  }

  Batch batch = three_sequences();
  Donors donors = next_donors(batch);
  Transformer model;
  BaseRun run;
  std::vector<Replacement> replaced;
};

// Returns the studied_models() that have edges.
std::vector<NamedModel> models_with_edges() {
  std::vector<NamedModel> models = studied_models();
  std::erase_if(models, [](const NamedModel& m) { return m.options.norm == NormPlacement::kPost; });
  return models;
}

void check_equal(const Effect& a, const Effect& b) {
  REQUIRE(a.changes.size() == b.changes.size());
  for (std::size_t i = 0; i < a.changes.size(); ++i)
    CHECK(std::abs(a.changes[i] - b.changes[i]) <= 1e-9);
}

TEST_CASE("all edges out of components, and all edges into heads, have the components' effect") {
  for (const auto& [name, o] : models_with_edges()) {
    const Replaced x(o);
    const EdgeEffects measured(x.run, x.donors);
    for (const Component& c : all_senders(x.model.options)) {
      CAPTURE(name, component_name(c));
      check_equal(measured.effect(x.all([&](const Edge& e) { return e.sender == c; })),
                  ablate(x.run, {c}, x.replaced));
    }
    std::vector<Component> senders{{0, 1}, {1, 0}};
    if (o.mlp) senders.push_back(Component::mlp(0));
    check_equal(measured.effect(x.all(
                    [&](const Edge& e) { return std::ranges::count(senders, e.sender) > 0; })),
                ablate(x.run, senders, x.replaced));
    const MultiHeadAttention::Options& a = x.model.options.attention;
    const Index group = a.heads / a.kv_heads;
    for (Index layer = 0; layer < o.layers; ++layer)
      for (Index head = 0; head < a.heads; head += group) {
        CAPTURE(name, layer, head);
        const auto is_in_group = [&](const Edge& e) {
          return e.receiver.kind < Receiver::kMlp && e.receiver.layer == layer &&
                 e.receiver.head >= head && e.receiver.head < head + group;
        };
        std::vector<Component> heads;
        std::vector<Cell> cells;
        for (Index h = head; h < head + group; ++h) {
          heads.emplace_back(layer, h);
          for (Index i = 0; i < 6; ++i)
            for (Index j = 0; j <= i; ++j) cells.push_back({{layer, h}, i, j});
        }
        check_equal(measured.effect(x.all(is_in_group)), ablate(x.run, heads, x.replaced));
        // All cells of the heads have the effect of all edges into their values.
        check_equal(measured.effect(x.all([&](const Edge& e) {
          return is_in_group(e) && e.receiver.kind == Receiver::kValue;
        })),
                    CellEffects(x.run, x.donors).effects({cells})[0]);
      }
  }
}

TEST_CASE("heads that share keys have one receiver of keys") {
  Transformer::Options o = small_options();
  o.attention.kv_heads = 1;
  const Replaced x(o);
  // Block 0: 5 receivers (3 Q, K, V) of 1 sender, an MLP of 4. Block 1: of 5 and 8. Logits: of 9.
  CHECK(all_edges(x.model.options).size() == 5 + 4 + 5 * 5 + 8 + 9);
  CHECK(x.edges("L0H1:K:L1H0") == x.edges("L0H1:K:L1H2"));
  CHECK(x.edges("L0H1:Q:L1H0") != x.edges("L0H1:Q:L1H2"));
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
  CHECK_THROWS_WITH(EdgeEffects(x.run, x.donors), Contains("trained with norm pre or none"));
}

}  // namespace
