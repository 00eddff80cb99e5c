#include "nn/lab/study/study.h"

#include <string>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::lab {

using namespace autograd;

namespace {

using L = LayerStudy;

constexpr ArrayQuantity kArrays[] = {
    {"hook_embed", "embeddings", "[B, T, d_model]", "embeddings of the tokens, without positions",
     nullptr, nullptr},
    {"hook_resid_pre", "stream before", "[B, T, d_model]", "residual stream before the block",
     &L::resid_pre, &L::resid_pre_grad},
    {"hook_resid_post", "stream after", "[B, T, d_model]", "residual stream after the block",
     &L::resid_post, &L::resid_post_grad},
    {"attn.hook_q", "q", "[B, T, H, d_head]", "queries, before norms and rotation", &L::q,
     &L::q_grad},
    {"attn.hook_k", "k", "[B, T, Hkv, d_head]", "keys, before norms and rotation", &L::k,
     &L::k_grad},
    {"attn.hook_v", "v", "[B, T, Hkv, d_value]", "values", &L::v, &L::v_grad},
    {"attn.hook_z", "z", "[B, T, H, d_value]", "weighted values, before the output projection",
     &L::z, &L::z_grad},
    {"attn.hook_attn_scores", "S", "[B, H, Tq, Tk]",
     "scores after the mask; -inf where it hides a key", &L::scores, &L::scores_grad},
    {"attn.hook_pattern", "A", "[B, H, Tq, Tk]", "weights: softmax of the scores, without dropout",
     &L::pattern, &L::pattern_grad}};

constexpr MapQuantity kMaps[] = {
    {"The attention weights: how much each query reads from each key.", &L::pattern, false,
     "weights", "Attention weights A", "attention weight",
     "L1H0 is head 0 of layer 1. Each row is one query's attention and sums to 1."},
    {"The effect of a larger weight on L, per unit. It may be nonzero where the mask hides a key.",
     &L::pattern_grad, true, "dA", "dL/dA, the gradient of each weight", "dL/dA",
     "Orange raises L, blue lowers L."},
    {"The effect of a higher score before the softmax on L, per unit. Each row sums to 0.",
     &L::scores_grad, true, "dS", "dL/dS, the gradient of each score", "dL/dS",
     "Orange raises L, blue lowers L."}};

}  // namespace

std::span<const ArrayQuantity> array_quantities() { return kArrays; }
std::span<const MapQuantity> map_quantities() { return kMaps; }

std::vector<Tensor> Study::by_layer(Tensor LayerStudy::*member) const {
  std::vector<Tensor> all;
  for (const LayerStudy& layer : layers) all.push_back(layer.*member);
  return all;
}

std::vector<NamedTensor> to_named(const Study& study) {
  std::vector<NamedTensor> arrays{{"hook_embed", study.embed},
                                  {"hook_embed_grad", study.embed_grad}};
  const auto layers = Index(study.layers.size());
  for (const ArrayQuantity& q : kArrays)
    for (Index layer = 0; q.value && layer < layers; ++layer) {
      const LayerStudy& of_layer = study.layers[std::size_t(layer)];
      const std::string site = block_site(layer, q.site);
      arrays.push_back({site, of_layer.*q.value});
      arrays.push_back({site + "_grad", of_layer.*q.gradient});
    }
  return arrays;
}

Study study(const Transformer& model, const Batch& batch, const Objective& objective) {
  check(batch.inputs.rank() == 2, "study", "needs sequences [B, T], got ", batch.inputs.shape());
  Probe probe;
  probe.record("hook_embed");
  for (std::size_t l = 0; l < model.blocks.size(); ++l)
    for (const ArrayQuantity& q : kArrays)
      if (q.value) probe.record(block_site(Index(l), q.site));
  const GradMode recording(true);
  const Tensor values =
      objective_values(model(batch.inputs, {.probe = &probe}), batch, objective);  // [B]
  // Because the sum is differentiated, the probe records the gradient of each sequence's own L.
  grad(sum(values), model.tok.weight);
  Study s;
  s.value = mean(to(values.detach(), float64)).item();
  s.embed = probe.value("hook_embed"), s.embed_grad = probe.value("hook_embed_grad");
  for (std::size_t l = 0; l < model.blocks.size(); ++l) {
    LayerStudy& layer = s.layers.emplace_back();
    for (const ArrayQuantity& q : kArrays) {
      if (!q.value) continue;
      const std::string site = block_site(Index(l), q.site);
      layer.*q.value = probe.value(site), layer.*q.gradient = probe.value(site + "_grad");
    }
  }
  return s;
}

}  // namespace heed::lab
