#include "nn/train/cost/model_cost.h"

#include "autograd/base/pool.h"
#include "autograd/tensor/create.h"
#include "nn/layers/probe.h"

namespace heed::nn {

using namespace autograd;

double flops_per_token(const Transformer& model) {
  std::int64_t in_products = 0;
  for (const NamedTensor& p : parameters(model)) {
    const bool looked_up =
        p.name == "pos.weight" || (p.name == "tok.weight" && !model.options.tied);
    if (p.tensor.rank() >= 2 && !is_bias(p.name) && !looked_up) in_products += p.tensor.numel();
  }
  const Transformer::Options& o = model.options;
  return 6.0 * double(in_products) + 6.0 * double(o.layers * o.context * o.attention.heads *
                                                  (o.attention.d_head + o.attention.d_value));
}

double activation_bytes(const Transformer& model) {
  const Tensor inputs = zeros({1, model.options.context}, int64);
  const auto before = pool_stats().live_bytes;
  const Tensor logits = model.forward(inputs, {.training = true});
  return double(pool_stats().live_bytes - before);
}

std::vector<std::pair<std::string, Shape>> site_shapes(const Transformer& model) {
  const NoGrad guard;
  const char* const sites[] = {"hook_embed", "blocks.0.attn.hook_q",
                               "blocks.0.attn.hook_attn_scores", "blocks.0.attn.hook_z",
                               "blocks.0.hook_resid_post"};
  Probe probe;
  for (const char* site : sites) probe.record(site);
  const Tensor inputs = zeros({1, model.options.context}, int64);
  const Tensor logits = model.forward(inputs, {.probe = &probe});
  std::vector<std::pair<std::string, Shape>> shapes = {{"inputs", inputs.shape()}};
  for (const char* site : sites) shapes.emplace_back(site, probe.value(site).shape());
  shapes.emplace_back("logits", logits.shape());
  return shapes;
}

}  // namespace heed::nn
