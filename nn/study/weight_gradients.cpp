#include "nn/study/weight_gradients.h"

#include <algorithm>

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

std::vector<WeightGradientNorms> weight_gradient_norms(const MultiHeadAttention& attention,
                                                       std::span<const Tensor> weights,
                                                       std::span<const Tensor> gradients) {
  AttentionWeights g = attention.weights;
  g.visit([&](std::string_view, Tensor& t) {
    const auto same =
        std::find_if(weights.begin(), weights.end(), [&](const Tensor& w) { return w.is_same(t); });
    if (t.defined()) t = gradients[std::size_t(same - weights.begin())];
  });
  g = convert(g, attention.options, AttentionForm::kPerHead);
  const auto norm = [](const Tensor& blocks, std::int64_t head) {
    const Tensor wide = to(select(blocks, 0, head), float64);
    return sqrt(sum(wide * wide)).item();
  };
  const std::int64_t heads = attention.options.heads, group = heads / attention.options.kv_heads;
  std::vector<WeightGradientNorms> norms;
  for (std::int64_t h = 0; h < heads; ++h)
    norms.push_back(
        {norm(g.W_Q, h), norm(g.W_K, h / group), norm(g.W_V, h / group), norm(g.W_O, h)});
  return norms;
}

}  // namespace heed::nn
