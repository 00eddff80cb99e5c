#include "nn/study/study.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/engine/engine.h"
#include "nn/io/nearest.h"
#include "nn/layers/probe.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr ArrayQuantity kArrays[] = {
    {"hook_embed", "embeddings", "[B, T, d_model]", "embeddings of the tokens, positions apart"},
    {"hook_resid_pre", "stream before", "[B, T, d_model]", "residual stream before the block"},
    {"hook_resid_post", "stream after", "[B, T, d_model]", "residual stream after the block"},
    {"attn.hook_q", "q", "[B, T, H, d_head]", "queries, before norms and rotation"},
    {"attn.hook_k", "k", "[B, T, Hkv, d_head]", "keys, before norms and rotation"},
    {"attn.hook_v", "v", "[B, T, Hkv, d_value]", "values"},
    {"attn.hook_z", "z", "[B, T, H, d_value]", "weighted values, before the output projection"},
    {"attn.hook_attn_scores_raw", "S raw", "[B, H, Tq, Tk]", "scores before cap, bias and mask"},
    {"attn.hook_attn_scores", "S", "[B, H, Tq, Tk]", "scores after the mask: hidden ones -inf"},
    {"attn.hook_pattern", "A", "[B, H, Tq, Tk]",
     "weights: softmax of the scores; a study drops none of them"}};

std::string site_name(std::int64_t layer, std::string_view site) {
  return (site == "hook_embed" ? "" : "blocks." + std::to_string(layer) + ".") + std::string(site);
}

// The values of x [B, H] by sequence and head.
struct ByHead {
  std::int64_t heads;
  std::vector<double> values;
  explicit ByHead(const Tensor& x) : heads(x.size(1)), values(to(x, float64).to_vector<double>()) {}
  double at(std::int64_t sequence, std::int64_t head) const {
    return values[std::size_t(sequence * heads + head)];
  }
};

// Norms of x over two axes, the others being sequences and heads.
ByHead norms(const Tensor& x, std::int64_t axis1, std::int64_t axis2) {
  const Tensor wide = to(x, float64);
  return ByHead(sqrt(sum(wide * wide, {axis1, axis2})));
}

// The mean over sequences of their norms.
double mean_norm(const Tensor& x) {
  const Tensor wide = to(reshape(x, {x.size(0), -1}), float64);
  return mean(sqrt(sum(wide * wide, {1}))).item();
}

HeadReport mean_report(const std::vector<HeadReport>& reports) {
  HeadReport r = reports.front();
  for (const HeadQuantity& q : head_quantities()) {
    double sum = 0, count = 0;
    for (const HeadReport& one : reports)
      if (!std::isnan(one.*q.value)) sum += one.*q.value, ++count;
    r.*q.value = sum / count;  // NaN where no sequence has it
  }
  return r;
}

// The weights' gradients of one layer, head by head: W_Q [H, d_model, d_head], ...
AttentionWeights per_head_gradients(const MultiHeadAttention& attention,
                                    const std::vector<Tensor>& weights,
                                    const std::vector<Tensor>& gradients) {
  AttentionWeights g = attention.weights;
  g.visit([&](std::string_view, Tensor& t) {
    const auto same =
        std::find_if(weights.begin(), weights.end(), [&](const Tensor& w) { return w.is_same(t); });
    if (t.defined()) t = gradients[std::size_t(same - weights.begin())];
  });
  return convert(g, attention.options, AttentionForm::kPerHead);
}

void add_weight_norms(HeadReport& r, const AttentionWeights& gradients, std::int64_t group) {
  const auto norm = [](const Tensor& w, std::int64_t head) {
    const Tensor block = to(select(w, 0, head), float64);
    return std::sqrt(sum(block * block).item());
  };
  r.dW_Q = norm(gradients.W_Q, r.head), r.dW_O = norm(gradients.W_O, r.head);
  r.dW_K = norm(gradients.W_K, r.head / group), r.dW_V = norm(gradients.W_V, r.head / group);
}

// What the heads of one layer do on each sequence; only the weights' gradients are of all.
std::vector<HeadReport> layer_reports(const Study& s, const Batch& batch, std::int64_t layer,
                                      const AttentionWeights& gradients) {
  const auto array = [&](std::string_view site) -> const Tensor& {
    return s.array(site_name(layer, "attn." + std::string(site)));
  };
  const Tensor &scores = array("hook_attn_scores"), &z = array("hook_z"),
               &dz = array("hook_z_grad");
  const std::int64_t heads = z.size(2), group = heads / array("hook_k").size(2);
  const Tensor hidden = le(scores, -HUGE_VAL);
  const ByHead dq = norms(array("hook_q_grad"), 1, 3), dk = norms(array("hook_k_grad"), 1, 3),
               dv = norms(array("hook_v_grad"), 1, 3), dz_norm = norms(dz, 1, 3),
               ds = norms(array("hook_attn_scores_grad"), 2, 3),
               da = norms(masked_fill(array("hook_pattern_grad"), hidden, 0), 2, 3),
               importance = ByHead(sum(to(z, float64) * to(dz, float64), {1, 3}));
  const auto visible =
      sum(to(logical_not(hidden), float64), {-1}).to_vector<double>();  // [B, H, T]
  const Tensor patterns = contiguous(to(array("hook_pattern"), float32));
  const auto tokens = batch.inputs.to_vector<std::int64_t>();
  const auto count = std::size_t(batch.inputs.size(0)), length = std::size_t(batch.inputs.size(1));
  std::vector<HeadReport> result;
  for (std::int64_t h = 0; h < heads; ++h) {
    std::vector<HeadReport> by_sequence;
    for (std::size_t b = 0; b < count; ++b) {
      const std::size_t row = b * std::size_t(heads) + std::size_t(h);
      const auto first = visible.begin() + std::ptrdiff_t(row * length);
      const std::vector<std::int64_t> keys(first, first + std::ptrdiff_t(length));
      HeadReport r = head_scores({patterns.data<float>() + row * length * length, length * length},
                                 {tokens.data() + b * length, length}, keys);
      r.layer = layer, r.head = h;
      const auto sequence = std::int64_t(b);
      r.dq = dq.at(sequence, h), r.dz = dz_norm.at(sequence, h);
      r.dk = dk.at(sequence, h / group), r.dv = dv.at(sequence, h / group);
      r.saturation = ds.at(sequence, h) / da.at(sequence, h);
      r.importance = importance.at(sequence, h), r.absolute_importance = std::abs(r.importance);
      add_weight_norms(r, gradients, group);
      by_sequence.push_back(r);
    }
    result.push_back(mean_report(by_sequence));
  }
  return result;
}

}  // namespace

std::span<const ArrayQuantity> array_quantities() { return kArrays; }

const Tensor& Study::array(std::string_view name) const {
  for (const NamedTensor& a : arrays)
    if (a.name == name) return a.tensor;
  std::vector<std::string> names;
  for (const NamedTensor& a : arrays) names.push_back(a.name);
  fail<ValueError>("study", "there is no array '", name, "'; the nearest is '",
                   nearest(std::string(name), names), "'");
}

const HeadReport& Study::head(std::int64_t layer, std::int64_t head) const {
  for (const HeadReport& r : heads)
    if (r.layer == layer && r.head == head) return r;
  fail<ValueError>("study", "there is no head L", layer, "H", head);
}

Study study(const Transformer& model, const Batch& batch, const Objective& objective) {
  check(batch.inputs.rank() == 2, "study", "needs sequences [B, T], got ", batch.inputs.shape());
  const std::int64_t layers = model.options.layers;
  std::vector<std::string> sites;
  for (const ArrayQuantity& q : kArrays)
    for (std::int64_t layer = 0; layer < (q.site == "hook_embed" ? 1 : layers); ++layer)
      sites.push_back(site_name(layer, q.site));
  Probe probe;
  for (const std::string& site : sites) probe.record(site);
  std::vector<Tensor> weights;
  for (const NamedTensor& p : parameters(model)) weights.push_back(p.tensor);
  const GradMode recording(true);
  const Tensor values =
      objective_values(model(batch.inputs, {.probe = &probe}), batch, objective);  // [B]
  // The sum: what a probe sees of a sequence is then the gradient of its own value alone.
  std::vector<Tensor> gradients = grad(sum(values), weights, {.allow_unused = true});
  const double count = double(batch.inputs.size(0));
  for (Tensor& g : gradients) g = g / count;
  Study s;
  s.value = mean(to(values.detach(), float64)).item();
  for (const std::string& site : sites) {
    s.arrays.push_back({site, probe.value(site)});
    s.arrays.push_back({site + "_grad", probe.value(site + "_grad")});
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string pattern = site_name(layer, "attn.hook_pattern");
    const Tensor hidden = le(s.array(site_name(layer, "attn.hook_attn_scores")), -HUGE_VAL);
    s.arrays.push_back({pattern + "_x_grad",
                        masked_fill(s.array(pattern) * s.array(pattern + "_grad"), hidden, 0)});
    const AttentionWeights g =
        per_head_gradients(model.blocks[std::size_t(layer)].attn, weights, gradients);
    for (const HeadReport& r : layer_reports(s, batch, layer, g)) s.heads.push_back(r);
    s.flow.push_back({layer, mean_norm(s.array(site_name(layer, "hook_resid_pre_grad"))),
                      mean_norm(s.array(site_name(layer, "hook_resid_post_grad")))});
  }
  return s;
}

Tensor by_distance(const Tensor& maps) {
  const std::int64_t heads = maps.size(1), length = maps.size(-1);
  const auto all = mean(to(maps, float64), {0}).to_vector<double>();  // [H, T, T]
  std::vector<double> means;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t d = 0; d < length; ++d) {
      double sum = 0;
      for (std::int64_t i = d; i < length; ++i)
        sum += all[std::size_t((h * length + i) * length + i - d)];
      means.push_back(sum / double(length - d));
    }
  return from_data(means, {heads, length});
}

}  // namespace heed::nn
