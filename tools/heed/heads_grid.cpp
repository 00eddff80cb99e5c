#include "tools/heed/heads_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"

namespace heed {
namespace {

// Head `head` of [1, H, T, T].
std::vector<float> values_of(const nn::Tensor& heads, std::int64_t head) {
  return contiguous(to(select(select(heads, 0, 0), 0, head), autograd::float32)).to_vector<float>();
}

std::vector<std::uint8_t> hidden_cells(const nn::Tensor& scores, std::int64_t head) {
  if (!scores.defined()) return {};
  const std::vector<float> values = values_of(scores, head);
  std::vector<std::uint8_t> hidden(values.size());
  std::transform(values.begin(), values.end(), hidden.begin(),
                 [](float v) { return std::uint8_t(v == -HUGE_VALF); });
  return hidden;
}

nn::Tensor scores_of(const std::vector<nn::NamedTensor>& arrays, std::int64_t layer) {
  for (const auto& [name, x] : arrays)
    if (layer_of(name, "hook_attn_scores") == layer) return x;
  return {};
}

}  // namespace

std::optional<std::int64_t> layer_of(std::string_view name, std::string_view site) {
  constexpr std::string_view kBefore = "blocks.", kBetween = ".attn.";
  if (!name.starts_with(kBefore) || !name.ends_with(site)) return {};
  name.remove_prefix(kBefore.size());
  name.remove_suffix(site.size());
  if (!name.ends_with(kBetween)) return {};
  name.remove_suffix(kBetween.size());
  return heed::parse_number<std::int64_t>(name);
}

plot::HeatmapGrid heads_grid(const std::vector<nn::NamedTensor>& arrays, const std::string& site,
                             std::optional<nn::HeadIndex> only) {
  plot::HeatmapGrid grid;
  for (const auto& [name, heads] : arrays) {
    const auto layer = layer_of(name, site);
    if (!layer || (only && only->layer != *layer)) continue;
    const nn::Tensor scores = scores_of(arrays, *layer);
    grid.panel_columns = only ? 1 : int(heads.size(1));
    for (std::int64_t head = 0; head < heads.size(1); ++head)
      if (!only || only->head == head)
        grid.panels.push_back({nn::head_name({*layer, head}), int(heads.size(2)),
                               int(heads.size(3)), values_of(heads, head),
                               hidden_cells(scores, head)});
  }
  grid.row_axis = "query: token that looks";
  grid.col_axis = "key: token looked at";
  grid.print_values = only.has_value();
  return grid;
}

}  // namespace heed
