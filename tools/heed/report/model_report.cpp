#include "tools/heed/report/model_report.h"

#include <cmath>

#include "nn/train/cost/model_cost.h"

namespace heed {

void add_model(Report& report, const nn::Transformer& model) {
  const autograd::NoGrad guard;
  Table& table = report.table("tensors");
  for (const auto& [name, tensor] : nn::parameters(model)) {
    const auto variance = var(to(tensor, autograd::float64), {}, {.correction = 0});  // by n
    table.add({name, sizes_of(tensor.shape()), tensor.numel(), std::sqrt(variance.item())});
  }
  const std::int64_t count = nn::count_parameters(model);
  const double bytes = double(count) * double(element_size(model.options.attention.dtype));
  const std::string reason(model.blocks[0].attn.composite_reason());
  report.set("parameters", count);
  report.set("attention", reason.empty() ? "fused" : "composite because of " + reason);
  report.set("flops_per_token", nn::flops_per_token(model));
  report.set("parameter_bytes", bytes);
  report.set("training_bytes", 4 * bytes);  // weights, gradients and the two moments of AdamW
}

Value sizes_of(const autograd::Shape& shape) {
  Value sizes = Value::array();
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

}  // namespace heed
