// Paths of information through a model: which parts read the output of which other parts.
//
// A component (embed, L0H1, L0MLP) adds its output to the residual stream. A receiver reads the
// stream: the queries, keys or values of a head, an MLP, or the logits. An edge connects a
// component with a later receiver. A path leads through several receivers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// A place that reads the residual stream.
struct Receiver {
  /// Kinds of receivers.
  enum Kind {
    kQuery,  ///< queries of a head
    kKey,    ///< keys of a head, or of the group of heads that share them
    kValue,  ///< values of a head, or of the group of heads that share them
    kMlp,    ///< an MLP
    kLogits  ///< the final norm and the output layer
  };
  Kind kind = kLogits;     ///< kind of the receiver
  std::int64_t layer = 0;  ///< index of the block; 0 for kLogits
  std::int64_t head = 0;   ///< index of the head in its layer; 0 for kMlp and kLogits
  /// Compares two receivers.
  bool operator==(const Receiver&) const = default;
};
/// A component, and the receivers that read it one after the other. An edge has one receiver.
struct Path {
  Component sender;                 ///< the component at the beginning
  std::vector<Receiver> receivers;  ///< at least one, each later than the one before
  /// Compares two paths.
  bool operator==(const Path&) const = default;
};

///@{
/// Returns the place of a component or receiver in a forward pass: -1 for the embedding, 2 l for
/// the attention of layer l, 2 l + 1 for its MLP, and twice the number of layers for the logits. A
/// receiver reads the components with a smaller number.
std::int64_t stage_of(const Component& component);
std::int64_t stage_of(const Receiver& receiver, const Transformer::Options& model);
///@}
/// If several heads share the keys or values of `receiver`, returns the receiver of the first of
/// these heads, whose name stands for all of them. Otherwise returns `receiver`.
Receiver shared_receiver(Receiver receiver, const Transformer::Options& model);
/// Site of the queries, keys or values that a receiver computes.
const char* site_of(Receiver::Kind kind);
/// Projects x to the queries or keys [..., d_head], or to the values [..., d_value], of a receiver.
/// x [..., d_model] is the stream after the receiver's norm. `weights` are stored in the form
/// AttentionForm::kPerHead.
Tensor project(const Receiver& r, const Tensor& x, const AttentionWeights& weights,
               const MultiHeadAttention::Options& o);
/// Returns the component that a receiver belongs to. It must not be kLogits.
Component component_of(const Receiver& receiver);
/// Returns the name of a path: "L0H0:K:L1H1:logits" or, for an edge, "L0H0:K:L1H1".
std::string path_name(const Path& path);
/// Parses a comma-separated list of paths of the model. The last receiver of a path is its
/// shared_receiver(). Throws ValueError for any other text, for a component or a receiver that the
/// model does not have, for a receiver that does not come after the output that it reads, and for a
/// path that is listed twice. The error text begins with `what`.
std::vector<Path> parse_paths(std::string_view what, const std::string& text,
                              const Transformer::Options& model);
/// Parses `text` and returns its receivers: Q, K and V of a head (L1H1), one of them (L1H1.K), an
/// MLP (L1MLP), the logits (logits), or all of the model (all). Throws ValueError for any other
/// text.
std::vector<Receiver> parse_receivers(std::string_view what, const std::string& text,
                                      const Transformer::Options& model);
/// Returns all edges into these receivers, from the embedding and from each head and MLP before.
std::vector<Path> edges_into(const std::vector<Receiver>& receivers,
                             const Transformer::Options& model);
/// Returns all paths from a component through the queries, keys or values of one head to the
/// logits.
std::vector<Path> paths_through_heads(const Transformer::Options& model);

}  // namespace heed::nn
