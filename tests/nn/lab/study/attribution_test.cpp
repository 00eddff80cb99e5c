// Tests of predictions by gradients. A prediction is the derivative of L by the share of the
// replacement, which finite differences of hand-written passes give.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;

// Sequences with one donor each.
struct Subject {
  explicit Subject(const Transformer::Options& o)
      : model(random_model(o)), run(model, batch, kDiff) {}

  // Returns the mean over sequences of dL/dt at t = 0 in a pass that starts from the stream
  // e' + share (e - e'). change(t) makes a probe that adds t times the change of a component.
  template <class F>
  double slope(double share, const F& change) const {
    const double h = 1e-5;
    const NoGrad guard;
    BaseRun here = run;
    const Tensor start = donor.embed();
    here.resid_pre[0] = start + (run.resid_pre[0] - start) * share;
    const auto value = [&](double t) {
      Probe probe;
      change(probe, t);
      return mean(here.values_from(0, probe)).item();
    };
    return (value(h) - value(-h)) / (2 * h);
  }
  // Returns {the derivative at the model, the mean over the points of the path}.
  template <class F>
  std::pair<double, double> slopes(const F& change) const {
    double path = 0;
    for (int k = 0; k < kPathPoints; ++k)
      path += slope((k + 0.5) / kPathPoints, change) / kPathPoints;
    return {slope(1, change), path};
  }

  Batch batch = three_sequences();
  Donors donors = next_donors(batch).first();
  Transformer model;
  BaseRun run;
  Replacement donor = replacements(model, donors)[0];
};

void check_close(double got, double expected) {
  CHECK(std::abs(got - expected) <= 1e-6 * std::max(1.0, std::abs(expected)));
}

TEST_CASE(
    "predictions for components, edges and cells are derivatives at the model and on the path") {
  for (const auto& [name, o] : studied_models()) {
    const Subject s(o);
    const bool has_edges = o.norm != NormPlacement::kPost;
    const Attribution a = attribute(s.run, s.donors, {.edges = has_edges, .cells = true});
    const auto pass =
        record_forward(s.model, s.batch.inputs, {"attn.hook_z", "attn.hook_v", "attn.hook_pattern"})
            .at;
    const auto check = [&](const PredictedEffects& p, std::size_t i, const auto& change) {
      const auto [at_model, path] = s.slopes(change);
      check_close(effect_of(p.gradient[i]).mean, at_model);
      check_close(effect_of(p.path[i]).mean, path);
    };
    const auto components = all_components(s.model.options);
    for (std::size_t i = 0; i < components.size(); ++i) {
      const Component& c = components[i];
      CAPTURE(name, component_name(c));
      const auto l = std::size_t(c.layer);
      const auto change = [&](Probe& probe, double t) {
        if (c.kind == Component::kHead) {
          const Tensor moved = t * (s.donor.z(c.layer) - pass[0][l]);
          probe.replace(block_site(c.layer, "attn.hook_z"), [=](const Tensor& z) {
            return z +
                   where(reshape(eq(arange(3), double(c.head)), {3, 1}), moved, zeros_like(moved));
          });
        } else {
          const Tensor own = record_forward(s.model, s.batch.inputs, {"hook_mlp_out"}).at[0][l];
          const Tensor moved = t * (s.donor.mlp(c.layer) - own);
          probe.replace(block_site(c.layer, "hook_mlp_out"),
                        [=](const Tensor& x) { return x + moved; });
        }
      };
      check(a.components, i, change);
      double mean = 0;
      for (const double p : a.points[i]) mean += p / kPathPoints;
      check_close(mean, effect_of(a.components.path[i]).mean);
      if (!has_edges) continue;
      // The predictions of all edges out of a component add up to its prediction.
      const auto edges = all_edges(s.model.options);
      double at_model = 0, path = 0;
      for (std::size_t e = 0; e < edges.size(); ++e)
        if (edges[e].sender == c)
          at_model += effect_of(a.edges.gradient[e]).mean, path += effect_of(a.edges.path[e]).mean;
      CHECK(std::abs(at_model - effect_of(a.components.gradient[i]).mean) <= 1e-9);
      CHECK(std::abs(path - effect_of(a.components.path[i]).mean) <= 1e-9);
    }
    // One cell of the last layer: z[5] changes by A (v' - v).
    const HeadIndex h{1, 2};
    const Index kv = 2 * pass[1][1].size(2) / 3, key = 4;
    const auto [at_model, path] = s.slopes([&](Probe& probe, double t) {
      const Tensor weight =
          reshape(select(select(select(pass[2][1], 1, h.head), 1, 5), 1, key), {3, 1});
      const auto value = [&](const Tensor& v) { return select(select(v, 1, key), 1, kv); };
      const Tensor moved = t * weight * (value(s.donor.v(1)) - value(pass[1][1]));  // [3, d]
      probe.replace(block_site(1, "attn.hook_z"), [=](const Tensor& z) {
        const Tensor here = logical_and(reshape(eq(arange(6), 5.0), {6, 1, 1}),
                                        reshape(eq(arange(3), double(h.head)), {3, 1}));
        const Tensor all = expand(reshape(moved, {3, 1, 1, z.size(3)}), z.shape());
        return z + where(here, all, zeros_like(all));
      });
    });
    CAPTURE(name);
    check_close(a.cell_gradient[1].at({h.head, 5, key}), at_model);
    check_close(a.cell_path[1].at({h.head, 5, key}), path);
  }
}

TEST_CASE("predictions are means over donors, and do not depend on the shards of a batch") {
  const Transformer model = random_model(small_options());
  const Batch batch = three_sequences();
  const BaseRun run(model, batch, kDiff);
  const Donors both = next_donors(batch);
  const Attribution all = attribute(run, both, {.edges = true, .cells = true});
  const Attribution first = attribute(run, both.first(), {.edges = true, .cells = true}),
                    second = attribute(run, {both.source, {both.rows[1]}},
                                       {.edges = true, .cells = true});
  const auto same = [](double mean, double a, double b) {
    CHECK(std::abs(mean - (a + b) / 2) <= 1e-12);
  };
  for (std::size_t b = 0; b < 3; ++b) {
    same(all.components.path[2][b], first.components.path[2][b], second.components.path[2][b]);
    same(all.edges.path[7][b], first.edges.path[7][b], second.edges.path[7][b]);
    same(all.edges.gradient[7][b], first.edges.gradient[7][b], second.edges.gradient[7][b]);
  }
  same(all.cell_path[1].at({0, 5, 3}), first.cell_path[1].at({0, 5, 3}),
       second.cell_path[1].at({0, 5, 3}));
  // The weight of a position is |(z' - z) . mean dL/dz|. Their sum bounds the prediction.
  CHECK(all.weights[1].shape() == Shape{3, 3, 6});
  for (std::size_t b = 0; b < 3; ++b) {
    const double total = sum(select(select(first.weights[1], 0, Index(b)), 0, 1)).item();
    CHECK(total >= std::abs(first.components.path[4][b]) - 1e-12);
  }
  for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
}

TEST_CASE(
    "the flow of gradients: slopes of scaling values and scores, and what the softmax passes") {
  const Subject s(small_options());
  const Attribution a = attribute(s.run, s.donors);
  const Study arrays = study(s.model, s.batch, kDiff);
  for (Index layer = 0; layer < 2; ++layer)
    for (Index head = 0; head < 3; ++head) {
      const auto i = std::size_t(layer * 3 + head);
      const auto scaled = [&](const char* site) {
        return s.slope(1, [&](Probe& probe, double t) {
          probe.replace(block_site(layer, site), [=](const Tensor& x) {
            const Tensor here = reshape(eq(arange(3), double(head)), {3, 1});
            return x + where(here, t * x, zeros_like(x));
          });
        });
      };
      check_close(a.flow.values[i], scaled("attn.hook_v"));
      check_close(a.flow.scores[i], scaled("attn.hook_q"));
      // q . dL/dq = S . dL/dS, and v . dL/dv = z . dL/dz.
      const LayerStudy& at = arrays.layers[std::size_t(layer)];
      const Tensor S = masked_fill(at.scores, le(at.scores, -HUGE_VAL), 0);
      check_close(a.flow.scores[i], sum(select(S * at.scores_grad, 1, head)).item() / 3);
      check_close(a.flow.values[i], sum(select(at.v * at.v_grad, 2, head)).item() / 3);
      const Tensor A = select(at.pattern, 1, head),
                   w = select(a.weights[std::size_t(layer)], 1, head);
      check_close(a.flow.passes[i], sum(sum(A * (1 - A), {2}) * w).item() / sum(w).item());
    }
  CHECK(a.flow.resid.size() == 3);
}

}  // namespace
