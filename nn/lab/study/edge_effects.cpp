#include "nn/lab/study/edge_effects.h"

#include <algorithm>

#include "nn/lab/study/attribution.h"
#include "nn/layers/probe.h"

namespace heed::lab {

using namespace autograd;

namespace {

using W = HeadWeights;

// Site and weights of queries, keys and values, by Receiver::Kind.
struct Projection {
  const char* site;
  Tensor W::*weight;
  Tensor W::*bias;
};
constexpr Projection kProjections[] = {{"attn.hook_q", &W::W_Q, &W::b_Q},
                                       {"attn.hook_k", &W::W_K, &W::b_K},
                                       {"attn.hook_v", &W::W_V, &W::b_V}};

// Returns the input of the attention of a block, or of its MLP.
Tensor normed(const std::optional<Norm>& norm, const Tensor& x) { return norm ? (*norm)(x) : x; }

}  // namespace

// One pass in which the receivers of some edges read changed streams.
class EdgePass {
 public:
  EdgePass(const EdgeEffects& base, const std::vector<Edge>& edges, const Replacement& replaced)
      : base_(base),
        options_(base.run_.model().options),
        edges_(edges),
        replaced_(replaced),
        resid_pre_(base.run_.resid_pre),
        z_(base.z_),
        resid_mid_(base.resid_mid_),
        mlp_out_(base.mlp_out_) {}

  // Returns L of each sequence, [B].
  std::vector<double> values(double* accuracy) {
    const NoGrad guard;
    Index first = options_.layers - 1;
    for (const Edge& e : edges_)
      if (e.receiver.kind != Receiver::kLogits) first = std::min(first, e.receiver.layer);
    Probe probe;
    for (Index layer = first; layer < options_.layers; ++layer) change_block(probe, layer);
    return to_doubles(base_.run_.values_from(first, probe, accuracy));
  }

 private:
  const Block& block(Index layer) const { return base_.run_.model().blocks[std::size_t(layer)]; }
  // Returns the change of the stream that a receiver reads; undefined if there is none.
  Tensor change_at(const Receiver& r) const {
    Tensor total;
    for (const Edge& e : edges_) {
      if (e.receiver != r) continue;
      const Tensor change =
          replaced_.change_of(e.sender, base_.run_.model(), resid_pre_[0], z_, mlp_out_);
      total = total.defined() ? total + change : change;
    }
    return total;
  }
  // Returns `all` [B, T, H, d], the queries (keys, values) of a layer, in which those of the
  // receiver's head are replaced by those for x, the stream before the block.
  Tensor with_head(const Receiver& r, const Tensor& all, const Tensor& x) const {
    const Index head = r.kind == Receiver::kQuery ? r.head : options_.attention.kv_head(r.head);
    const Projection& p = kProjections[r.kind];
    const HeadWeights& weights = base_.weights_[std::size_t(r.layer)];
    Tensor own = matmul(normed(block(r.layer).ln1, x), select(weights.*p.weight, 0, head));
    if (const Tensor& b = weights.*p.bias; b.defined()) own = own + select(b, 0, head);
    return where(reshape(eq(arange(all.size(2)), double(head)), {-1, 1}), unsqueeze(own, 2), all);
  }
  // Makes the probe store the values of this pass and change what the receivers of a block read.
  void change_block(Probe& probe, Index layer) {
    const auto l = std::size_t(layer);
    const auto store = [&](const char* site, std::vector<Tensor>& values) {
      probe.replace(block_site(layer, site),
                    [&values, l](const Tensor& x) { return values[l] = x; });
    };
    store("hook_resid_pre", resid_pre_), store("attn.hook_z", z_);
    for (const auto kind : {Receiver::kQuery, Receiver::kKey, Receiver::kValue})
      probe.replace(block_site(layer, kProjections[kind].site), [this, kind, layer, l](Tensor x) {
        const Index group = options_.attention.heads / x.size(2);
        for (Index head = 0; head < x.size(2); ++head) {
          const Receiver r{kind, layer, head * group};
          if (const Tensor d = change_at(r); d.defined()) x = with_head(r, x, resid_pre_[l] + d);
        }
        return x;
      });
    if (options_.mlp) {
      store("hook_resid_mid", resid_mid_);
      probe.replace(block_site(layer, "hook_mlp_out"), [this, layer, l](const Tensor& x) {
        const Tensor d = change_at({Receiver::kMlp, layer, 0});
        if (!d.defined()) return mlp_out_[l] = x;
        return mlp_out_[l] = (*block(layer).mlp)(normed(block(layer).ln2, resid_mid_[l] + d));
      });
    }
    if (layer + 1 == options_.layers)
      probe.replace(block_site(layer, "hook_resid_post"), [this](const Tensor& x) {
        const Tensor d = change_at({});
        return d.defined() ? x + d : x;
      });
  }

  const EdgeEffects& base_;
  const Transformer::Options& options_;
  const std::vector<Edge>& edges_;
  const Replacement& replaced_;
  std::vector<Tensor> resid_pre_, z_, resid_mid_, mlp_out_;
};

EdgeEffects::EdgeEffects(const BaseRun& run, const Donors& donors)
    : run_(run), replaced_(replacements(run.model(), donors)) {
  const NoGrad guard;
  const Transformer& model = run.model();
  check_separable(model, "edges");
  for (const Block& b : model.blocks) weights_.push_back(by_head(b.attn.weights, b.attn.options));
  std::vector<std::string_view> sites{"attn.hook_z"};
  if (model.options.mlp) sites.insert(sites.end(), {"hook_resid_mid", "hook_mlp_out"});
  RecordedForward pass = record_forward(model, run.batch.inputs, sites);
  z_ = pass.at[0];
  if (model.options.mlp) resid_mid_ = pass.at[1], mlp_out_ = pass.at[2];
}

Effect EdgeEffects::effect(const std::vector<Edge>& edges) const {
  check<ValueError>(!edges.empty(), "edges", "needs at least one edge, got none");
  return effect_over(run_, replaced_, edge_name(edges[0]),
                     [&](const Replacement& r, double* accuracy) {
                       return EdgePass(*this, edges, r).values(accuracy);
                     });
}

double EdgeEffects::work(const Edge& edge) const {
  const Index layers = run_.model().options.layers;
  const double share = edge.receiver.kind == Receiver::kLogits
                           ? 1 / double(layers)
                           : double(layers - edge.receiver.layer) / double(layers);
  return share * pass_work(run_.model(), run_.batch.inputs.size(1)) *
         double(run_.values.size() * replaced_.size());
}

}  // namespace heed::lab
