#include "tools/heed/heads_grid.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"

namespace heed {
namespace {

// Head `head` of [1, H, T, T].
std::vector<float> values_of(const nn::Tensor& heads, std::int64_t head) {
  return contiguous(to(select(select(heads, 0, 0), 0, head), autograd::float32)).to_vector<float>();
}

std::vector<std::uint8_t> hidden_cells(const nn::Tensor& scores, std::int64_t head) {
  const std::vector<float> values = values_of(scores, head);
  std::vector<std::uint8_t> hidden(values.size());
  std::transform(values.begin(), values.end(), hidden.begin(),
                 [](float v) { return std::uint8_t(v == -HUGE_VALF); });
  return hidden;
}

}  // namespace

plot::HeatmapGrid heads_grid(const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores,
                             std::optional<nn::HeadIndex> only) {
  plot::HeatmapGrid grid;
  for (std::size_t l = 0; l < maps.size(); ++l) {
    const auto layer = std::int64_t(l);
    if (only && only->layer != layer) continue;
    const nn::Tensor& heads = maps[l];
    grid.panel_columns = only ? 1 : int(heads.size(1));
    for (std::int64_t head = 0; head < heads.size(1); ++head)
      if (!only || only->head == head)
        grid.panels.push_back({nn::head_name({layer, head}), int(heads.size(2)), int(heads.size(3)),
                               values_of(heads, head), hidden_cells(scores[l], head)});
  }
  grid.row_axis = "query: token that looks";
  grid.col_axis = "key: token looked at";
  grid.print_values = only.has_value();
  return grid;
}

}  // namespace heed
