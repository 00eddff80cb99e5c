#include "tools/heed/report/model_report.h"

#include <cmath>
#include <sstream>

#include "autograd/base/pool.h"
#include "autograd/tensor/create.h"
#include "nn/layers/probe.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

// Of all entries.
double standard_deviation(const nn::Tensor& parameter) {
  const autograd::NoGrad guard;
  return std::sqrt(var(to(parameter, autograd::float64), {}, {.correction = 0}).item());
}

}  // namespace

ModelReport report_on(nn::Transformer& model) {
  ModelReport r;
  r.parameters = nn::parameters(model);
  std::int64_t in_products = 0;
  for (const nn::NamedTensor& p : r.parameters) {
    r.count += p.tensor.numel();
    const bool looked_up =
        p.name == "pos.weight" || (p.name == "tok.weight" && !model.options.tied);
    if (p.tensor.rank() >= 2 && !nn::is_bias(p.name) && !looked_up) in_products += p.tensor.numel();
  }
  const nn::Transformer::Options& o = model.options;
  const nn::MultiHeadAttention& attn = model.blocks[0].attn;
  r.flops_per_token =
      6.0 * double(in_products) + 6.0 * double(o.layers * o.context * o.attention.heads *
                                               (attn.options.d_head + attn.options.d_value));
  const std::string_view reason = attn.composite_reason();
  r.attention = reason.empty() ? "fused" : "composite because of " + std::string(reason);
  r.parameter_bytes = double(r.count) * (o.attention.dtype == autograd::float64 ? 8 : 4);
  r.training_bytes = 4 * r.parameter_bytes;

  const nn::Tensor inputs = autograd::zeros({1, o.context}, autograd::int64);
  {
    const auto before = autograd::pool_stats().live_bytes;
    const nn::Tensor logits = model.forward(inputs, {.training = true});
    r.activation_bytes = double(autograd::pool_stats().live_bytes - before);
  }
  const autograd::NoGrad guard;
  nn::Probe probe;
  const std::vector<std::string> sites = {"hook_embed", "blocks.0.attn.hook_q",
                                          "blocks.0.attn.hook_attn_scores", "blocks.0.attn.hook_z",
                                          "blocks.0.hook_resid_post"};
  for (const std::string& site : sites) probe.record(site);
  r.sites.emplace_back("inputs", inputs.shape());
  const nn::Tensor logits = model.forward(inputs, {.probe = &probe});
  for (const std::string& site : sites) r.sites.emplace_back(site, probe.value(site).shape());
  r.sites.emplace_back("logits", logits.shape());
  return r;
}

void add_model(Report& report, const ModelReport& model) {
  Table& table = report.table("tensors");
  for (const nn::NamedTensor& p : model.parameters)
    table.add({p.name, sizes_of(p.tensor), p.tensor.numel(), standard_deviation(p.tensor)});
  report.set("parameters", model.count);
  report.set("attention", model.attention);
  report.set("flops_per_token", model.flops_per_token);
  report.set("parameter_bytes", model.parameter_bytes);
  report.set("training_bytes", model.training_bytes);
  report.set("activation_bytes_per_sequence", model.activation_bytes);
}

Value sizes_of(const nn::Tensor& tensor) {
  Value sizes = Value::array();
  for (int i = 0; i < tensor.rank(); ++i) sizes.push_back(tensor.size(i));
  return sizes;
}

}  // namespace heed
