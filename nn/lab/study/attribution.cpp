#include "nn/lab/study/attribution.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::lab {

using namespace autograd;

namespace {

// Values of one pass and gradients of L, by layer. `mid_grad` and `mlp_grad` are empty without
// MLPs.
struct Point {
  std::vector<Tensor> resid, resid_grad;  // stream before each block
  Tensor last_grad;                       // dL/d(stream after the last block)
  std::vector<Tensor> z, z_grad, q, q_grad, k_grad, v, v_grad, pattern, mid, mid_grad, mlp,
      mlp_grad;
};

// Runs the model from `stream`, the stream before the first block, forward and backward.
Point run_at(const BaseRun& run, const Tensor& stream) {
  const Transformer& model = run.model();
  const Index layers = model.options.layers;
  BaseRun here = run;
  here.resid_pre[0] = stream.detach().requires_grad_();
  std::vector<std::string> sites{"hook_resid_pre", "attn.hook_z", "attn.hook_q",
                                 "attn.hook_k",    "attn.hook_v", "attn.hook_pattern"};
  if (model.options.mlp) sites.insert(sites.end(), {"hook_resid_mid", "hook_mlp_out"});
  Probe probe;
  for (Index layer = 0; layer < layers; ++layer)
    for (const std::string& site : sites) probe.record(block_site(layer, site));
  const std::string last = block_site(layers - 1, "hook_resid_post");
  probe.record(last);
  const GradMode recording(true);
  // The gradients of a sequence are those of its own L.
  grad(sum(here.values_from(0, probe)), here.resid_pre[0]);
  Point p;
  const auto read = [&](const char* site, std::vector<Tensor>* values,
                        std::vector<Tensor>* gradients) {
    for (Index layer = 0; layer < layers; ++layer) {
      const std::string name = block_site(layer, site);
      if (values) values->push_back(probe.value(name));
      if (gradients) gradients->push_back(probe.value(name + "_grad"));
    }
  };
  read("hook_resid_pre", &p.resid, &p.resid_grad), read("attn.hook_z", &p.z, &p.z_grad);
  read("attn.hook_q", &p.q, &p.q_grad), read("attn.hook_k", nullptr, &p.k_grad);
  read("attn.hook_v", &p.v, &p.v_grad), read("attn.hook_pattern", &p.pattern, nullptr);
  if (model.options.mlp)
    read("hook_resid_mid", &p.mid, &p.mid_grad), read("hook_mlp_out", &p.mlp, &p.mlp_grad);
  p.last_grad = probe.value(last + "_grad");
  return p;
}

// Returns dL/dx for the stream x that each receiver reads, in the order of all_receivers(), for all
// sequences: [R, B, T, D].
Tensor receiver_gradients(const Transformer& model, const Point& p) {
  const MultiHeadAttention::Options& o = model.options.attention;
  std::vector<Tensor> all;
  for (std::size_t l = 0; l < model.blocks.size(); ++l) {
    const Block& block = model.blocks[l];
    const HeadWeights w = by_head(block.attn.weights, o);
    std::vector<Tensor> read;  // dL/d(normed stream) by receiver
    for (Index head = 0; head < o.heads; ++head) {
      const auto back = [&](const Tensor& gradient, const Tensor& weight, Index h) {
        read.push_back(matmul(select(gradient, 2, h), mT(select(weight.detach(), 0, h))));
      };
      back(p.q_grad[l], w.W_Q, head);
      if (head % (o.heads / o.kv_heads) != 0) continue;
      back(p.k_grad[l], w.W_K, o.kv_head(head)), back(p.v_grad[l], w.W_V, o.kv_head(head));
    }
    Tensor gradients = stack(read, 0);  // [R, B, T, D]
    if (block.ln1) {
      const GradMode recording(true);
      const Tensor x =
          contiguous(expand(unsqueeze(p.resid[l], 0), gradients.shape())).requires_grad_();
      gradients = grad(sum((*block.ln1)(x)*gradients), x);
    }
    all.push_back(gradients);
    // The stream after attention is read by the MLP, and by the sum after it.
    if (model.options.mlp) all.push_back(unsqueeze(p.mid_grad[l] - p.mlp_grad[l], 0));
  }
  all.push_back(unsqueeze(p.last_grad, 0));
  return cat(all, 0);
}

// Returns x . y for each sequence and head: x and y are [B, T, H, d].
Tensor dot_of_heads(const Tensor& x, const Tensor& y) {
  return sum(to(x, float64) * to(y, float64), {1, 3});
}
std::vector<double> dot(const Tensor& x, const Tensor& y) {  // [B, T, D]
  return to_doubles(sum(to(x, float64) * to(y, float64), {1, 2}));
}
// Adds `more`, by layer, times `share` to `sums`, which may be empty.
void add_to(std::vector<Tensor>& sums, const std::vector<Tensor>& more, double share = 1) {
  sums.resize(more.size());
  for (std::size_t l = 0; l < more.size(); ++l)
    sums[l] = sums[l].defined() ? sums[l] + more[l] * share : more[l] * share;
}

// Sequences whose arrays fit into memory at once.
class Part {
 public:
  Part(const BaseRun& run, AttributionParts parts)
      : run_(run), parts_(parts), components_(all_components(run.model().options)) {
    if (!parts.edges) return;
    senders_ = all_senders(run.model().options);
    receivers_ = all_receivers(run.model().options);
    edges_ = all_edges(run.model().options);
  }

  // Adds the predictions of each donor with `share`, and those at the model.
  void add(const std::vector<Replacement>& donors, Attribution& all,
           const std::function<void()>& step) {
    own_ = run_at(run_, run_.resid_pre[0]);
    const NoGrad guard;
    add_flow(all.flow);
    const double share = 1 / double(donors.size());
    Sums at_model = empty_sums(), along_path = empty_sums();
    const Gradients own = gradients_of(own_);
    step();
    for (const Replacement& donor : donors) {
      Gradients mean;
      for (int k = 0; k < kPathPoints; ++k) {
        const Tensor start = donor.embed(), e = run_.resid_pre[0];
        const Gradients here =
            gradients_of(run_at(run_, start + (e - start) * ((k + 0.5) / kPathPoints)));
        add_to(mean.z, here.z, 1.0 / kPathPoints), add_to(mean.mlp, here.mlp, 1.0 / kPathPoints);
        add_to(mean.receivers, here.receivers, 1.0 / kPathPoints);
        add_points(here, donor, share, all, k);
        step();
      }
      add_predictions(own, donor, share, at_model);
      add_predictions(mean, donor, share, along_path);
      add_weights(mean, donor, share);
    }
    move_to(all.components.gradient, at_model.components);
    move_to(all.components.path, along_path.components);
    move_to(all.edges.gradient, at_model.edges), move_to(all.edges.path, along_path.edges);
    add_to(all.cell_gradient, at_model.cells), add_to(all.cell_path, along_path.cells);
    all.weights.resize(weights_.size());
    for (std::size_t l = 0; l < weights_.size(); ++l) {
      Tensor& whole = all.weights[l];
      whole = whole.defined() ? cat({whole, weights_[l]}, 0) : weights_[l];
    }
    add_passes(all.flow);
  }

 private:
  // Gradients at one point, or their mean over points.
  struct Gradients {
    std::vector<Tensor> z, mlp;     // by layer
    std::vector<Tensor> receivers;  // receiver_gradients(), or empty
  };
  // Sums over donors.
  struct Sums {
    std::vector<std::vector<double>> components, edges;  // by place, then by sequence
    std::vector<Tensor> cells;                           // by layer
  };
  Sums empty_sums() const {
    const std::vector<double> zero(run_.values.size(), 0);
    return {std::vector(components_.size(), zero), std::vector(edges_.size(), zero), {}};
  }
  static void move_to(std::vector<std::vector<double>>& all,
                      const std::vector<std::vector<double>>& more) {
    all.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i)
      all[i].insert(all[i].end(), more[i].begin(), more[i].end());
  }

  Gradients gradients_of(const Point& p) const {
    Gradients g{p.z_grad, p.mlp_grad, {}};
    if (parts_.edges) g.receivers = {receiver_gradients(run_.model(), p)};
    return g;
  }

  // Returns the prediction for each component and sequence.
  std::vector<std::vector<double>> of_components(const Gradients& g,
                                                 const Replacement& donor) const {
    std::vector<std::vector<double>> all;
    for (std::size_t l = 0; l < own_.z.size(); ++l) {
      const Tensor p = dot_of_heads(donor.z(Index(l)) - own_.z[l], g.z[l]);
      for (Index h = 0; h < p.size(1); ++h) all.push_back(to_doubles(select(p, 1, h)));
    }
    for (std::size_t l = 0; l < g.mlp.size(); ++l)
      all.push_back(dot(donor.mlp(Index(l)) - own_.mlp[l], g.mlp[l]));
    return all;
  }

  void add_points(const Gradients& g, const Replacement& donor, double share, Attribution& all,
                  int k) const {
    const auto p = of_components(g, donor);
    all.points.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      for (std::size_t b = 0; b < p[i].size(); ++b)
        all.points[i][std::size_t(k)] += share * p[i][b] * run_.counts[b];
  }

  void add_predictions(const Gradients& g, const Replacement& donor, double share,
                       Sums& sums) const {
    const auto p = of_components(g, donor);
    for (std::size_t i = 0; i < p.size(); ++i)
      for (std::size_t b = 0; b < p[i].size(); ++b) sums.components[i][b] += share * p[i][b];
    if (parts_.edges) {
      std::vector<Tensor> changes;
      for (const Component& c : senders_)
        changes.push_back(donor.change_of(c, run_.model(), run_.resid_pre[0], own_.z, own_.mlp));
      const auto flat = [](const Tensor& x) {  // [n, B, T, D] -> [B, n, T D]
        return permute(reshape(x, {x.size(0), x.size(1), x.size(2) * x.size(3)}), {1, 0, 2});
      };
      const Tensor all = to(matmul(flat(stack(changes, 0)), mT(flat(g.receivers[0]))), float64);
      const std::vector<double> values = contiguous(all).to_vector<double>();  // [B, S, R]
      std::size_t e = 0;
      for (std::size_t r = 0; r < receivers_.size(); ++r)
        for (std::size_t s = 0; s < senders_.size(); ++s) {
          if (stage_of(senders_[s]) >= stage_of(receivers_[r], run_.model().options)) continue;
          for (std::size_t b = 0; b < run_.values.size(); ++b)
            sums.edges[e][b] += share * values[(b * senders_.size() + s) * receivers_.size() + r];
          ++e;
        }
    }
    if (!parts_.cells) return;
    std::vector<Tensor> maps;
    for (std::size_t l = 0; l < own_.z.size(); ++l) {
      // [B, H, T, d] each; heads of a group share values
      const Index heads = own_.z[l].size(2);
      const Tensor change =
          repeat_heads(permute(donor.v(Index(l)) - own_.v[l], {0, 2, 1, 3}), heads);
      const Tensor cells = matmul(permute(g.z[l], {0, 2, 1, 3}), mT(change)) * own_.pattern[l];
      maps.push_back(sum(to(cells, float64), {0}));
    }
    add_to(sums.cells, maps, share);
  }

  void add_weights(const Gradients& g, const Replacement& donor, double share) {
    std::vector<Tensor> weights;
    for (std::size_t l = 0; l < own_.z.size(); ++l) {
      const Tensor change = to(donor.z(Index(l)) - own_.z[l], float64);
      weights.push_back(mT(abs(sum(change * to(g.z[l], float64), {3}))));  // [B, H, T]
    }
    add_to(weights_, weights, share);
  }

  // Adds the sums over the sequences; attribute() divides them.
  void add_flow(GradientFlow& flow) const {
    const auto norm = [](const Tensor& x) {
      const Tensor wide = to(x, float64);
      return sum(sqrt(sum(wide * wide, {1, 2}))).item();
    };
    std::size_t head = 0;
    const std::size_t layers = own_.z.size();
    flow.resid.resize(layers + 1);
    for (std::size_t l = 0; l < layers; ++l) {
      flow.resid[l] += norm(own_.resid_grad[l]);
      const auto values = to_doubles(sum(dot_of_heads(own_.z[l], own_.z_grad[l]), {0})),
                 scores = to_doubles(sum(dot_of_heads(own_.q[l], own_.q_grad[l]), {0}));
      flow.values.resize(head + values.size()), flow.scores.resize(head + values.size());
      for (std::size_t h = 0; h < values.size(); ++h, ++head)
        flow.values[head] += values[h], flow.scores[head] += scores[h];
    }
    flow.resid[layers] += norm(own_.last_grad);
  }
  // Adds to `passes` the weighted sum of A (1 - A).
  void add_passes(GradientFlow& flow) const {
    std::size_t head = 0;
    for (std::size_t l = 0; l < weights_.size(); ++l) {
      const Tensor A = to(own_.pattern[l], float64);
      const auto sums = to_doubles(sum(sum(A * (1 - A), {3}) * weights_[l], {0, 2}));
      flow.passes.resize(std::max(flow.passes.size(), head + sums.size()));
      for (const double x : sums) flow.passes[head++] += x;
    }
  }

  const BaseRun run_;
  AttributionParts parts_;
  std::vector<Component> components_, senders_;
  std::vector<Receiver> receivers_;
  std::vector<Edge> edges_;
  Point own_;                    // at the model itself
  std::vector<Tensor> weights_;  // by layer
};

}  // namespace

Attribution attribute(const BaseRun& run, const Donors& donors, AttributionParts parts,
                      const ProgressCallback& progress) {
  if (parts.edges) check_separable(run.model(), "edges");
  const Index count = std::ssize(run.values),
              most = sequences_at_once(run.model(), run.batch.inputs.size(1)),
              shards = (count + most - 1) / most,
              steps = shards * (1 + kPathPoints * std::ssize(donors.rows));
  Index done = 0;
  const auto step = [&] {
    if (progress) progress(++done, steps);
  };
  const std::vector<Replacement> by_donor = replacements(run.model(), donors);
  Attribution all;
  for (Index first = 0; first < count; first += most) {
    const Index n = std::min(most, count - first);
    std::vector<Replacement> here;
    for (const Replacement& r : by_donor) here.push_back(r.of(first, n));
    Part(run.rows(first, n), parts).add(here, all, step);
  }
  double counted = 0;
  for (const double n : run.counts) counted += n;
  for (auto& points : all.points)
    for (double& p : points) p /= counted;
  for (auto* maps : {&all.cell_gradient, &all.cell_path})
    for (Tensor& map : *maps) map = map / double(count);
  for (auto* list : {&all.flow.resid, &all.flow.values, &all.flow.scores})
    for (double& x : *list) x /= double(count);
  std::size_t head = 0;
  for (const Tensor& w : all.weights)
    for (const double total : to_doubles(sum(w, {0, 2}))) all.flow.passes[head++] /= total;
  for (const PredictedEffects* p : {&all.components, &all.edges})
    for (const auto* list : {&p->gradient, &p->path})
      for (const auto& values : *list)
        check_finite(effect_of(values, run.counts).mean, "study", "a prediction by the gradient");
  return all;
}

double pass_work(const Transformer& model, Index length) {
  double parameters = 0;
  for (const NamedTensor& p : nn::parameters(model)) parameters += double(p.tensor.numel());
  const MultiHeadAttention::Options& a = model.options.attention;
  const double attention = double(model.options.layers * a.heads * length) * double(length) *
                           double(a.d_head + a.d_value);
  return 2 * (parameters * double(length) + attention);
}

double attribution_work(const BaseRun& run, const Donors& donors, AttributionParts parts) {
  const Transformer::Options& o = run.model().options;
  const Index length = run.batch.inputs.size(1);
  const auto points = double(1 + kPathPoints * std::ssize(donors.rows)),
             count = double(run.values.size());
  double work = 3 * points * pass_work(run.model(), length);
  if (parts.edges) {
    const auto size = double(length * o.attention.d_model),
               receivers = double(all_receivers(o).size()), senders = double(all_senders(o).size());
    work += points * receivers * size * double(20 + 2 * o.attention.d_head);
    work += 4 * double(donors.rows.size()) * receivers * senders * size;
  }
  return count * work;
}

}  // namespace heed::lab
