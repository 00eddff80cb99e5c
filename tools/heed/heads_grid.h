// Heat maps of heads.
#pragma once

#include <optional>
#include <vector>

#include "nn/io/names.h"
#include "nn/layers/sites.h"
#include "tools/plot/heatmap.h"

namespace heed {

/// Maps [1, H, T, T] of each layer, a row of panels each, or of the one head `only`, large and with
/// its numbers; queries by keys. A cell is masked where the layer's scores, of the same shape, are
/// -inf: the causal mask, a window or padding hides that key.
plot::HeatmapGrid heads_grid(const std::vector<nn::Tensor>& maps,
                             const std::vector<nn::Tensor>& scores,
                             std::optional<nn::HeadIndex> only = {});

}  // namespace heed
