#include "nn/study/edge_cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "autograd/base/text.h"
#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the input of the attention of a block, or of its MLP.
Tensor normed(const std::optional<Norm>& norm, const Tensor& x) { return norm ? (*norm)(x) : x; }

}  // namespace

// The forward pass of the unchanged model on some sequences. All cuts share it.
struct EdgeCutter::Base {
  // Values of a pass, by layer. `mid` and `mlp_out` are empty without MLPs.
  struct Streams {
    std::vector<Tensor> resid_pre, z, mid, mlp_out;
  };

  Base(const BaseRun& run_, const Replacement& replaced_) : run(run_), replaced(replaced_) {
    const NoGrad guard;
    for (const Block& b : run.model().blocks)
      weights.push_back(by_head(b.attn.weights, b.attn.options));
    std::vector<std::string_view> sites{"attn.hook_z"};
    if (run.model().options.mlp) sites.insert(sites.end(), {"hook_resid_mid", "hook_mlp_out"});
    RecordedForward pass = record_forward(run.model(), run.batch.inputs, sites);
    streams = {run.resid_pre, pass.at[0], {}, {}};
    if (run.model().options.mlp) streams.mid = pass.at[1], streams.mlp_out = pass.at[2];
  }
  // Returns the values of the sequences [first, first + count).
  Base rows(std::int64_t first, std::int64_t count) const {
    Base part = *this;
    part.run = run.rows(first, count), part.replaced = replaced.rows(first, count);
    for (auto* values :
         {&part.streams.resid_pre, &part.streams.z, &part.streams.mid, &part.streams.mlp_out})
      for (Tensor& x : *values) x = slice(x, 0, first, first + count);
    return part;
  }

  const Block& block(std::int64_t layer) const { return run.model().blocks[std::size_t(layer)]; }
  // Returns what an MLP adds to the stream if it reads `mid`.
  Tensor mlp(std::int64_t layer, const Tensor& mid) const {
    return (*block(layer).mlp)(normed(block(layer).ln2, mid));
  }
  // Returns what a head adds to the stream if its output before W_O is z [B or 1, T or 1, d_value].
  Tensor written(const Component& c, const Tensor& z) const {
    return matmul(z, select(weights[std::size_t(c.layer)].W_O, 0, c.head));
  }
  // Returns what a component adds to the stream.
  Tensor output(const Component& c, const Streams& s) const {
    const auto l = std::size_t(c.layer);
    if (c.kind == Component::kEmbed) return s.resid_pre[0];
    return c.kind == Component::kMlp ? s.mlp_out[l] : written(c, select(s.z[l], 2, c.head));
  }
  // Returns what replaces the output of a component.
  Tensor replacement_of(const Component& c) const {
    const auto l = std::size_t(c.layer);
    if (c.kind == Component::kEmbed) return replaced.embed;
    return c.kind == Component::kMlp ? replaced.mlp[l]
                                     : written(c, select(replaced.z[l], 2, c.head));
  }

  BaseRun run;
  Replacement replaced;
  std::vector<HeadWeights> weights;  // by layer
  Streams streams;
};

// One pass in which the receivers of some edges read changed streams.
class EdgeCutter::Pass {
 public:
  // Returns the change of the output `out` of the sender of edge i, of the same shape.
  using Change = std::function<Tensor(std::size_t i, const Tensor& out)>;

  Pass(const Base& base, const std::vector<Edge>& edges, Change of_sender)
      : base_(base),
        options_(base.run.model().options),
        edges_(edges),
        of_sender_(std::move(of_sender)),
        running_(base.streams) {}

  // Returns L of each sequence, [B].
  Tensor values() {
    std::int64_t first = options_.layers - 1;
    for (const Edge& e : edges_)
      if (e.receiver.kind != Receiver::kLogits) first = std::min(first, e.receiver.layer);
    Probe probe;
    for (std::int64_t layer = first; layer < options_.layers; ++layer) change_block(probe, layer);
    return base_.run.values_from(first, probe);
  }

 private:
  // Returns the change of the stream that a receiver reads; undefined if there is none.
  Tensor change_at(const Receiver& r) const {
    Tensor total;
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (edges_[i].receiver != r) continue;
      const Tensor change = of_sender_(i, base_.output(edges_[i].sender, running_));
      total = total.defined() ? total + change : change;
    }
    return total;
  }
  // Returns `all` [B, T, H, d], the queries (keys, values) of a layer, in which those of the
  // receiver's head are replaced by those for x, the stream before the block.
  Tensor with_head(const Receiver& r, const Tensor& all, const Tensor& x) const {
    const std::int64_t head =
        r.kind == Receiver::kQuery ? r.head : options_.attention.kv_head(r.head);
    const Tensor own = project(r, normed(base_.block(r.layer).ln1, x),
                               base_.weights[std::size_t(r.layer)], options_.attention);
    return where(reshape(eq(arange(all.size(2)), double(head)), {-1, 1}), unsqueeze(own, 2), all);
  }
  // Makes the probe store the running values of a block and change what its receivers read.
  void change_block(Probe& probe, std::int64_t layer) {
    const auto l = std::size_t(layer);
    const auto store = [&](const char* site, std::vector<Tensor>& values) {
      probe.replace(block_site(layer, site),
                    [&values, l](const Tensor& x) { return values[l] = x; });
    };
    store("hook_resid_pre", running_.resid_pre), store("attn.hook_z", running_.z);
    for (const auto kind : {Receiver::kQuery, Receiver::kKey, Receiver::kValue})
      probe.replace(block_site(layer, std::string("attn.") + site_of(kind)),
                    [this, kind, layer, l](Tensor x) {
                      const std::int64_t group = options_.attention.heads / x.size(2);
                      for (std::int64_t head = 0; head < x.size(2); ++head) {
                        const Receiver r{kind, layer, head * group};
                        if (const Tensor d = change_at(r); d.defined())
                          x = with_head(r, x, running_.resid_pre[l] + d);
                      }
                      return x;
                    });
    if (options_.mlp) {
      store("hook_resid_mid", running_.mid);
      probe.replace(block_site(layer, "hook_mlp_out"), [this, layer, l](const Tensor& x) {
        const Tensor d = change_at({Receiver::kMlp, layer, 0});
        return running_.mlp_out[l] = d.defined() ? base_.mlp(layer, running_.mid[l] + d) : x;
      });
    }
    if (layer + 1 == options_.layers)
      probe.replace(block_site(layer, "hook_resid_post"), [this](const Tensor& x) {
        const Tensor d = change_at({});
        return d.defined() ? x + d : x;
      });
  }

  const Base& base_;
  const Transformer::Options& options_;
  const std::vector<Edge>& edges_;
  Change of_sender_;
  Base::Streams running_;
};

EdgeCutter::EdgeCutter(const BaseRun& run, const Replacement& replaced) {
  check_separable(run.model(), "edges");
  base_ = std::make_shared<Base>(run, replaced);
}

std::vector<double> EdgeCutter::values(const std::vector<Edge>& edges) const {
  const NoGrad guard;
  const auto cut = [&](std::size_t i, const Tensor& out) {
    return base_->replacement_of(edges[i].sender) - out;
  };
  return to_doubles(Pass(*base_, edges, cut).values());
}

std::vector<std::vector<double>> EdgeCutter::predict(const std::vector<Edge>& edges,
                                                     const std::vector<std::size_t>& group) const {
  std::vector<std::vector<double>> predicted(edges.size());
  std::vector<Edge> distinct;  // the first edge of each group
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (group[i] == distinct.size()) distinct.push_back(edges[i]);
  const BaseRun& run = base_->run;
  const std::int64_t count = std::ssize(run.values),
                     most = sequences_at_once(run.model(), run.batch.inputs.size(1));
  for (std::int64_t first = 0; first < count; first += most) {
    const Base part = base_->rows(first, std::min(most, count - first));
    // Changes of the senders' outputs, all 0. dL/d(changes[i]) is the gradient along distinct[i].
    std::vector<Tensor> changes;
    for (std::size_t i = 0; i < distinct.size(); ++i)
      changes.push_back(zeros_like(part.run.resid_pre[0]).requires_grad_());
    const auto at_zero = [&](std::size_t i, const Tensor&) { return changes[i]; };
    const GradMode recording(true);
    const Tensor values = Pass(part, distinct, at_zero).values();
    const std::vector<Tensor> gradients = grad(sum(values), changes, {.allow_unused = true});
    const NoGrad guard;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const Tensor change = to(part.replacement_of(edges[i].sender), float64) -
                            to(part.output(edges[i].sender, part.streams), float64);
      for (const double p : to_doubles(sum(change * to(gradients[group[i]], float64), {1, 2})))
        predicted[i].push_back(p);
    }
  }
  for (std::size_t i = 0; i < edges.size(); ++i)
    check_finite(effect_of(predicted[i]).mean, "edges",
                 "the prediction for " + edge_name(edges[i]));
  return predicted;
}

std::vector<Effect> EdgeCutter::predictions(const std::vector<Edge>& edges) const {
  constexpr std::size_t kMostGradients = 32;  // of one backward pass; each needs [B, T, d_model]
  std::vector<Effect> predicted;
  for (auto begin = edges.begin(); begin != edges.end();) {
    std::vector<std::size_t> group{0};
    auto end = begin + 1;
    for (; end != edges.end(); ++end) {
      const bool is_new = (end - 1)->receiver != end->receiver;
      if (is_new && group.back() + 1 == kMostGradients) break;
      group.push_back(group.back() + is_new);
    }
    for (const auto& values : predict({begin, end}, group)) predicted.push_back(effect_of(values));
    begin = end;
  }
  return predicted;
}

Effect EdgeCutter::measured(const std::vector<Edge>& edges) const {
  const Effect effect = effect_of(base_->run.changes(values(edges)));
  check_finite(effect.mean, "edges", "the effect of " + edge_name(edges[0]));
  return effect;
}

Evidence EdgeCutter::cut(const std::vector<Edge>& edges) const {
  check<ValueError>(!edges.empty(), "edges", "needs at least one edge, got none");
  std::vector<double> sums(base_->run.values.size(), 0);
  for (const Effect& of_edge : predictions(edges))
    for (std::size_t b = 0; b < sums.size(); ++b) sums[b] += of_edge.changes[b];
  std::vector<std::string> names;
  for (const Edge& e : edges) names.push_back(edge_name(e));
  return {heed::join(names, ", "), measured(edges), {{"gradient", effect_of(sums)}}};
}

std::vector<Evidence> EdgeCutter::largest(const std::vector<Edge>& edges, std::size_t count,
                                          const ProgressCallback& progress) const {
  const std::vector<Effect> predicted = predictions(edges);
  std::vector<std::size_t> order(edges.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return std::abs(predicted[i].mean); });
  order.resize(std::min(order.size(), count));
  std::vector<Evidence> cuts;
  for (const std::size_t i : order) {
    cuts.push_back({edge_name(edges[i]), measured({edges[i]}), {{"gradient", predicted[i]}}});
    if (progress) progress(std::ssize(cuts), std::ssize(order));
  }
  std::ranges::stable_sort(cuts, std::greater<>(),
                           [](const Evidence& c) { return std::abs(c.effect.mean); });
  return cuts;
}

}  // namespace heed::nn
