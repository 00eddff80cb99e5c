// Names of places inside a model: components such as "L1H0" and "L0MLP", and sites of a probe such
// as "blocks.1.attn.hook_z". The functions here write and parse such names.
#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/index.h"
#include "autograd/base/text.h"

namespace heed::nn {

/// Index of an attention head.
struct HeadIndex {
  Index layer;  ///< index of the block, from 0
  Index head;   ///< index of the head within its layer, from 0
  /// Compares the layer, then the head.
  auto operator<=>(const HeadIndex&) const = default;
};
/// Parses a comma-separated list, each item by parse(item). Throws ValueError for an item that is
/// listed twice, and the errors of parse(). The error text begins with `what`.
template <class F>
auto parse_list(std::string_view what, const std::string& text, const F& parse) {
  std::vector<std::invoke_result_t<F, const std::string&>> found;
  for (const std::string& item : heed::split(text, ',')) {
    auto parsed = parse(item);
    heed::check<autograd::ValueError>(std::ranges::find(found, parsed) == found.end(), what,
                                      "names ", item, " twice");
    found.push_back(std::move(parsed));
  }
  return found;
}
/// Returns the name of a head, such as "L1H0".
std::string head_name(const HeadIndex& head);
/// Returns the name of `count` consecutive heads that begin at `first`, such as "L1H2-3" for two
/// heads. The name of one head is "L1H2".
std::string head_range(const HeadIndex& first, Index count);
/// Parses a comma-separated list of heads, such as "L1H0,L0H1". Throws ValueError for any other
/// text, for a head that the model does not have, and for a head that is listed twice. The error
/// text begins with `what`.
std::vector<HeadIndex> parse_heads(std::string_view what, const std::string& text, Index layers,
                                   Index heads);
/// Returns all heads of a model, sorted by layer and then by head.
std::vector<HeadIndex> all_heads(Index layers, Index heads);

/// A part of a model that adds a vector to the residual stream at each position.
struct Component {
  /// Kinds of components, in the order in which a forward pass reaches them.
  enum Kind {
    kEmbed,  ///< embedding of the token, plus that of the position if the model adds one
    kHead,   ///< output of an attention head times its part of W_O, without the bias b_O
    kMlp     ///< output of an MLP
  };
  Kind kind = kEmbed;  ///< kind of the component
  Index layer = 0;     ///< index of the block, from 0; 0 for kEmbed
  Index head = 0;      ///< index of the head in its layer; 0 unless the kind is kHead

  /// The embedding.
  Component() = default;
  /// A head. The conversion is implicit, so that heads can be given where components are expected.
  Component(const HeadIndex& h) : kind(kHead), layer(h.layer), head(h.head) {}  // NOLINT: implicit
  /// A head.
  Component(Index layer_, Index head_) : Component(HeadIndex{layer_, head_}) {}
  /// Returns the MLP of a block.
  static Component mlp(Index layer) { return {kMlp, layer}; }
  /// Compares two components.
  bool operator==(const Component&) const = default;

 private:
  Component(Kind k, Index l) : kind(k), layer(l) {}
};
/// Returns the name of a component: "embed", "L0H1" or "L0MLP".
std::string component_name(const Component& component);
/// Throws ValueError unless a model with `layers` blocks of `heads` heads, and MLPs if `mlp` is
/// true, has this component. The error text begins with `what`.
void check_component(std::string_view what, const Component& component, Index layers, Index heads,
                     bool mlp = false);
/// Parses the name of a component. Throws ValueError for any other text and for a component that
/// the model does not have. The error text begins with `what`.
Component parse_component(std::string_view what, const std::string& text, Index layers, Index heads,
                          bool mlp);
/// Parses a comma-separated list of components. Also throws ValueError for a component that is
/// listed twice.
std::vector<Component> parse_components(std::string_view what, const std::string& text,
                                        Index layers, Index heads, bool mlp);

/// Returns the name of block `layer`, such as "blocks.1".
std::string block_name(Index layer);
/// Returns the full name of a site of a block. For layer 1 and the site "attn.hook_z", it is
/// "blocks.1.attn.hook_z".
std::string block_site(Index layer, std::string_view site);

}  // namespace heed::nn
