// Names of the places inside a model: heads ("L1H0") and the sites of a probe
// ("blocks.1.attn.hook_z"). They are written and read here and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

/// Layer and head, both from 0.
struct HeadIndex {
  std::int64_t layer, head;
  bool operator==(const HeadIndex&) const = default;
};
/// Returns "L1H0".
std::string head_name(const HeadIndex& head);
/// Returns "L1H2-3" for 2 heads from `first` on, "L1H2" for one.
std::string head_range(const HeadIndex& first, std::int64_t count);
/// Throws ValueError, which begins with `what`, unless the model has this head.
void check_head(std::string_view what, const HeadIndex& head, std::int64_t layers,
                std::int64_t heads);
/// Reads "L1H0,L0H1". Throws ValueError, which begins with `what`, for another text, a head that
/// the model does not have, and a head named twice.
std::vector<HeadIndex> parse_heads(std::string_view what, const std::string& text,
                                   std::int64_t layers, std::int64_t heads);
/// Returns the heads of a model by layer, then head.
std::vector<HeadIndex> all_heads(std::int64_t layers, std::int64_t heads);

/// Returns the name of block `layer` in its model, "blocks.1".
std::string block_name(std::int64_t layer);
/// Returns "blocks.1.attn.hook_z" of layer 1 and "attn.hook_z".
std::string block_site(std::int64_t layer, std::string_view site);
/// Returns the layer of "blocks.1.attn.hook_z"; nothing for a name outside the blocks.
std::optional<std::int64_t> layer_of_site(std::string_view name);

}  // namespace heed::nn
