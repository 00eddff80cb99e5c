// Names of places inside a model: heads such as "L1H0", and sites of a probe such as
// "blocks.1.attn.hook_z". Only this file writes and parses such names.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::nn {

/// Index of an attention head.
struct HeadIndex {
  std::int64_t layer;  ///< index of the block, from 0
  std::int64_t head;   ///< index of the head within its layer, from 0
  /// Compares the layer, then the head.
  auto operator<=>(const HeadIndex&) const = default;
};
/// Returns the name of a head, such as "L1H0".
std::string head_name(const HeadIndex& head);
/// Returns the name of `count` consecutive heads that begin at `first`, such as "L1H2-3" for two
/// heads. The name of one head is "L1H2".
std::string head_range(const HeadIndex& first, std::int64_t count);
/// Throws ValueError unless a model with `layers` layers of `heads` heads has this head. The error
/// text begins with `what`.
void check_head(std::string_view what, const HeadIndex& head, std::int64_t layers,
                std::int64_t heads);
/// Parses a comma-separated list of heads, such as "L1H0,L0H1". Throws ValueError for any other
/// text, for a head that the model does not have, and for a head that is listed twice. The error
/// text begins with `what`.
std::vector<HeadIndex> parse_heads(std::string_view what, const std::string& text,
                                   std::int64_t layers, std::int64_t heads);
/// Returns all heads of a model, sorted by layer and then by head.
std::vector<HeadIndex> all_heads(std::int64_t layers, std::int64_t heads);

/// Returns the name of block `layer`, such as "blocks.1".
std::string block_name(std::int64_t layer);
/// Returns the full name of a site of a block. For layer 1 and the site "attn.hook_z", it is
/// "blocks.1.attn.hook_z".
std::string block_site(std::int64_t layer, std::string_view site);
/// Returns the layer in the name of a site or a parameter, such as 1 for "blocks.1.attn.hook_z".
/// Returns nullopt for a name that is not inside a block.
std::optional<std::int64_t> layer_of_site(std::string_view name);

}  // namespace heed::nn
