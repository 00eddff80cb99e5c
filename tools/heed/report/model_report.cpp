#include "tools/heed/report/model_report.h"

#include <cmath>

#include "nn/train/cost/model_cost.h"

namespace heed {
namespace {

// Returns the standard deviation over all entries of a parameter (divided by n, not n - 1).
double standard_deviation(const nn::Tensor& parameter) {
  const autograd::NoGrad guard;
  return std::sqrt(var(to(parameter, autograd::float64), {}, {.correction = 0}).item());
}

}  // namespace

void add_model(Report& report, const nn::Transformer& model) {
  Table& table = report.table("tensors");
  for (const nn::NamedTensor& p : nn::parameters(model))
    table.add({p.name, sizes_of(p.tensor.shape()), p.tensor.numel(), standard_deviation(p.tensor)});
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
