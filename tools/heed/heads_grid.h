// Heat maps of heads, from the arrays that probes record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/named_tensor.h"
#include "nn/study/head_index.h"
#include "tools/plot/heatmap.h"

namespace heed {

/// The layer of "blocks.3.attn.`site`"; nothing for another name.
std::optional<std::int64_t> layer_of(std::string_view name, std::string_view site);

/// blocks.L.attn.`site` [1, H, T, T] of every layer, a row of panels each, or the one head `only`,
/// large and with its numbers; queries by keys. A cell is masked where
/// blocks.L.attn.hook_attn_scores, if it is among the arrays, is -inf: the causal mask, a window or
/// padding hides that key.
plot::HeatmapGrid heads_grid(const std::vector<nn::NamedTensor>& arrays, const std::string& site,
                             std::optional<nn::HeadIndex> only = {});

}  // namespace heed
