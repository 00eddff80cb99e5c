#include "nn/lab/train/cost/model_cost.h"

#include "autograd/base/pool.h"
#include "autograd/tensor/create.h"

namespace heed::lab {

using namespace autograd;

double flops_per_token(const Transformer& model) {
  Index in_products = 0;
  for (const NamedTensor& p : parameters(model)) {
    const bool looked_up =
        p.name == "pos.weight" || (p.name == "tok.weight" && !model.options.tied);
    if (p.tensor.rank() >= 2 && !looked_up) in_products += p.tensor.numel();
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

}  // namespace heed::lab
