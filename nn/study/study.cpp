#include "nn/study/study.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/base/parallel.h"
#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/cells.h"

namespace heed::nn {

using namespace autograd;

namespace {

using L = LayerStudy;
using M = MapQuantity;

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
     &L::pattern, &L::pattern_grad},
    {"attn.hook_value_norm", "|v W_O|", "[B, H, 1, Tk]",
     "norm of what a key adds to the stream at a query with weight 1", &L::value_norm, nullptr},
    {"attn.hook_cut_prediction", "predicted change", "[B, H, Tq, Tk]",
     "change of L that dL/dA predicts if the score of this cell alone is set to -inf",
     &L::cut_prediction, nullptr}};

constexpr MapQuantity kMaps[] = {
    M("A", "The attention weights: how much each query reads from each key.", &L::pattern, false,
      {"weights", "Attention weights A", "attention weight",
       "L1H0 is head 0 of layer 1. Each row is one query's attention and sums to 1."}),
    M("A |v W_O|",
      "The norm of what each query receives from each key: the weight times the norm of the "
      "key's output. A head may rest on a key with a large weight that adds nothing.",
      &L::pattern_x_value_norm, false,
      {"outputs", "A |v W_O|, what each key adds", "A |v W_O|",
       "The norm of what each query receives from each key."}),
    M("dL/dA",
      "The effect of a larger weight on L, per unit. It may be nonzero where the mask hides "
      "a key.",
      &L::pattern_grad, true,
      {"dA", "dL/dA, the gradient of each weight", "dL/dA", "Orange raises L, blue lowers L."}),
    M("dL/dS",
      "The effect of a higher score before the softmax on L, per unit. Each row sums to 0.",
      &L::scores_grad, true,
      {"dS", "dL/dS, the gradient of each score", "dL/dS", "Orange raises L, blue lowers L."}),
    M("predicted change",
      "The change of L that dL/dA predicts if this cell is cut: its score is set to -inf, "
      "and the softmax divides its weight among the other keys. In the unit of L.",
      &L::cut_prediction, true)};

// Sites whose values patching() needs. Files do not contain them. The last one needs an MLP.
constexpr ArrayQuantity kOthers[] = {{"hook_attn_out", {}, {}, {}, &L::attn_out, &L::attn_out_grad},
                                     {"hook_mlp_out", {}, {}, {}, &L::mlp_out, &L::mlp_out_grad}};

// Returns the sites of a block that are recorded.
std::vector<ArrayQuantity> recorded(const Block& block) {
  std::vector<ArrayQuantity> all;
  for (const ArrayQuantity& q : kArrays)
    if (q.gradient) all.push_back(q);
  all.insert(all.end(), kOthers, kOthers + (block.mlp ? 2 : 1));
  return all;
}

// Returns the Euclidean norm of x over the given axes, float64.
Tensor norms(const Tensor& x, const Dims& axes) {
  const Tensor wide = to(x, float64);
  return sqrt(sum(wide * wide, axes));
}

// One sequence of a batch, without padding.
struct StudiedSequence {
  std::int64_t index, length;         // position in the batch, number of tokens n
  std::vector<std::int64_t> tokens;   // [n]
  Tensor hidden;                      // [n, n] bool8: the mask hides the key; equal for all heads
  std::vector<std::int64_t> visible;  // [n], number of visible keys of each query

  // Returns maps[index, h] without padding, [n, n].
  Tensor map(const Tensor& maps, std::int64_t h) const {
    const Tensor whole = select(select(maps, 0, index), 0, h);
    return contiguous(slice(slice(whole, 0, 0, length), 1, 0, length));
  }
};

// Returns the sequences of a batch. `scores` are those of a layer, [B, H, T, T].
std::vector<StudiedSequence> sequences_of(const Batch& batch, const Tensor& scores) {
  std::vector<StudiedSequence> sequences;
  for (std::int64_t b = 0; b < batch.inputs.size(0); ++b) {
    StudiedSequence s{b, batch.tokens_of(b), {}, {}, {}};
    s.tokens =
        contiguous(slice(select(batch.inputs, 0, b), 0, 0, s.length)).to_vector<std::int64_t>();
    s.hidden = le(s.map(scores, 0), -HUGE_VAL);
    s.visible = sum(to(logical_not(s.hidden), int64), {1}).to_vector<std::int64_t>();
    sequences.push_back(std::move(s));
  }
  return sequences;
}

// Returns the mean head_scores() of equal weights on all visible keys.
HeadReport uniform_report(const std::vector<StudiedSequence>& sequences) {
  std::vector<HeadReport> by_sequence;
  for (const StudiedSequence& s : sequences) {
    const Tensor shown = to(logical_not(s.hidden), float64);
    const Tensor count = sum(shown, {1}, true);
    by_sequence.push_back(
        head_scores(to_doubles(shown / masked_fill(count, eq(count, 0), 1)), s.tokens, s.visible));
  }
  return mean_report(by_sequence);
}

// Computes the report of each head of one layer, averaged over the sequences, without the norms of
// weight gradients.
std::vector<HeadReport> layer_reports(const LayerStudy& layer,
                                      const std::vector<StudiedSequence>& sequences,
                                      std::int64_t index) {
  const std::int64_t heads = layer.z.size(2), group = heads / layer.k.size(2);
  const Tensor dq = norms(layer.q_grad, {1, 3}), dk = norms(layer.k_grad, {1, 3}),
               dv = norms(layer.v_grad, {1, 3}), dz = norms(layer.z_grad, {1, 3}),  // [B, H]
      importance = sum(to(layer.z, float64) * to(layer.z_grad, float64), {1, 3});
  std::vector<HeadReport> result(static_cast<std::size_t>(heads));
  parallel_for(heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      std::vector<HeadReport> by_sequence;
      for (const StudiedSequence& s : sequences) {
        const std::int64_t b = s.index;
        HeadReport r = head_scores(to_doubles(s.map(layer.pattern, h)), s.tokens, s.visible);
        r.layer = index, r.head = h;
        r[kDq] = dq.at({b, h}), r[kDz] = dz.at({b, h});
        r[kDk] = dk.at({b, h / group}), r[kDv] = dv.at({b, h / group});
        r[kImportance] = importance.at({b, h}), r[kAbsoluteImportance] = std::abs(r[kImportance]);
        by_sequence.push_back(r);
      }
      result[std::size_t(h)] = mean_report(by_sequence);
    }
  });
  return result;
}

void record_sites(Probe& probe, const Transformer& model) {
  probe.record("hook_embed");
  for (std::size_t l = 0; l < model.blocks.size(); ++l)
    for (const ArrayQuantity& q : recorded(model.blocks[l]))
      probe.record(block_site(std::int64_t(l), q.site));
}

// Returns the norm of v W_O for each head and key, [B, H, 1, Tk]. v is [B, T, Hkv, d_value].
Tensor value_norms(const Tensor& v, const Block& block) {
  const MultiHeadAttention& attention = block.attn;
  const Tensor W_O = by_head(attention.weights, attention.options).W_O.detach();
  const std::int64_t heads = attention.options.heads, group = heads / v.size(2);
  std::vector<Tensor> all;
  for (std::int64_t h = 0; h < heads; ++h)
    all.push_back(norms(matmul(select(v, 2, h / group), select(W_O, 0, h)), {2}));  // [B, T]
  return unsqueeze(stack(all, 1), 2);
}

LayerStudy read_layer(const Probe& probe, std::int64_t layer, const Block& block) {
  LayerStudy s;
  for (const ArrayQuantity& q : recorded(block)) {
    const std::string site = block_site(layer, q.site);
    s.*q.value = probe.value(site);
    if (q.gradient) s.*q.gradient = probe.value(site + "_grad");
  }
  s.value_norm = to(value_norms(s.v, block), s.pattern.dtype());
  s.pattern_x_value_norm = s.pattern * s.value_norm;
  s.cut_prediction = cut_predictions(s.scores, s.pattern_grad);
  return s;
}

}  // namespace

std::span<const ArrayQuantity> array_quantities() { return kArrays; }
std::span<const MapQuantity> map_quantities() { return kMaps; }

const HeadReport& Study::head(std::int64_t layer, std::int64_t head) const {
  for (const HeadReport& r : heads)
    if (r.layer == layer && r.head == head) return r;
  fail<ValueError>("study", "the model has ", heads.size(), " heads, but not ",
                   head_name({layer, head}));
}

std::vector<Tensor> Study::by_layer(Tensor LayerStudy::*member) const {
  std::vector<Tensor> all;
  for (const LayerStudy& layer : layers) all.push_back(layer.*member);
  return all;
}

std::vector<NamedTensor> to_named(const Study& study) {
  std::vector<NamedTensor> arrays{{"hook_embed", study.embed},
                                  {"hook_embed_grad", study.embed_grad}};
  const auto layers = std::int64_t(study.layers.size());
  const auto add = [&](std::int64_t layer, const std::string& site, Tensor LayerStudy::*member) {
    arrays.push_back({block_site(layer, site), study.layers[std::size_t(layer)].*member});
  };
  for (const ArrayQuantity& q : kArrays)
    for (std::int64_t layer = 0; q.value && layer < layers; ++layer) {
      add(layer, std::string(q.site), q.value);
      if (q.gradient) add(layer, std::string(q.site) + "_grad", q.gradient);
    }
  return arrays;
}

void add_weight_norms(std::vector<HeadReport>& heads, const Transformer& model,
                      std::span<const Tensor> weights, std::span<const Tensor> gradients) {
  for (std::size_t l = 0; l < model.blocks.size(); ++l) {
    const MultiHeadAttention& attention = model.blocks[l].attn;
    AttentionWeights g = attention.weights;
    g.visit([&](std::string_view, Tensor& t) {
      const auto same =
          std::ranges::find_if(weights, [&](const Tensor& w) { return w.is_same(t); });
      if (t.defined()) t = gradients[std::size_t(same - weights.begin())];
    });
    const HeadWeights of_heads = by_head(g, attention.options);
    for (HeadReport& r : heads) {
      if (r.layer != std::int64_t(l)) continue;
      const std::int64_t kv_head = attention.options.kv_head(r.head);
      const auto norm = [](const Tensor& w, std::int64_t head) {
        return norms(select(w, 0, head), {0, 1}).item();
      };
      r[kDWQ] = norm(of_heads.W_Q, r.head), r[kDWO] = norm(of_heads.W_O, r.head);
      r[kDWK] = norm(of_heads.W_K, kv_head), r[kDWV] = norm(of_heads.W_V, kv_head);
    }
  }
}

Study study(const Transformer& model, const Batch& batch, const Objective& objective) {
  check(batch.inputs.rank() == 2, "study", "needs sequences [B, T], got ", batch.inputs.shape());
  Probe probe;
  record_sites(probe, model);
  std::vector<Tensor> weights;
  for (const NamedTensor& p : parameters(model)) weights.push_back(p.tensor);
  const GradMode recording(true);
  const Tensor values =
      objective_values(model(batch.inputs, {.probe = &probe}), batch, objective);  // [B]
  // Because the sum is differentiated, the probe records the gradient of each sequence's own L.
  std::vector<Tensor> gradients = grad(sum(values), weights, {.allow_unused = true});
  const double count = double(batch.inputs.size(0));
  for (Tensor& g : gradients) g = g / count;
  Study s;
  s.value = mean(to(values.detach(), float64)).item();
  s.embed = probe.value("hook_embed"), s.embed_grad = probe.value("hook_embed_grad");
  for (std::size_t l = 0; l < model.blocks.size(); ++l) {
    const auto layer = std::int64_t(l);
    s.layers.push_back(read_layer(probe, layer, model.blocks[l]));
    const LayerStudy& arrays = s.layers.back();
    const std::vector<StudiedSequence> sequences = sequences_of(batch, arrays.scores);
    for (const HeadReport& r : layer_reports(arrays, sequences, layer)) s.heads.push_back(r);
    if (l == 0) s.uniform = uniform_report(sequences);
  }
  add_weight_norms(s.heads, model, weights, gradients);
  return s;
}

double mean_norm(const Tensor& x) { return mean(norms(reshape(x, {x.size(0), -1}), {1})).item(); }

}  // namespace heed::nn
