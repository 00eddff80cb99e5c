// Edges of a model: which parts read the output of which other parts.
//
// A component (embed, L0H1, L0MLP) adds its output to the residual stream. A receiver reads the
// stream: the queries, keys or values of a head, an MLP, or the logits. An edge connects a
// component with a later receiver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/lab/names.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

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
  Kind kind = kLogits;  ///< kind of the receiver
  Index layer = 0;      ///< index of the block; 0 for kLogits
  Index head = 0;       ///< index of the head in its layer; 0 for kMlp and kLogits
  /// Compares two receivers.
  bool operator==(const Receiver&) const = default;
};
/// A component, and a receiver that reads it.
struct Edge {
  Component sender;   ///< the component
  Receiver receiver;  ///< comes after the component
  /// Compares two edges.
  bool operator==(const Edge&) const = default;
};

///@{
/// Returns the place of a component or receiver in a forward pass: -1 for the embedding, 2 l for
/// the attention of layer l, 2 l + 1 for its MLP, and twice the number of layers for the logits. A
/// receiver reads the components with a smaller number.
Index stage_of(const Component& component);
Index stage_of(const Receiver& receiver, const Transformer::Options& model);
///@}
/// Returns the component that a receiver belongs to. It must not be kLogits.
Component component_of(const Receiver& receiver);
/// Returns the name of an edge: "L0H0:K:L1H1" or "L1MLP:logits".
std::string edge_name(const Edge& edge);
/// Parses a comma-separated list of edges of the model. If several heads share the keys or values
/// of a receiver, the first of these heads stands for all of them. Throws ValueError for any other
/// text, for a component or a receiver that the model does not have, for a receiver that does not
/// come after the output that it reads, and for an edge that is listed twice. The error text begins
/// with `what`.
std::vector<Edge> parse_edges(std::string_view what, const std::string& text,
                              const Transformer::Options& model);
///@{
/// Returns the components that add to the stream, the embedding first, and the places that read it,
/// the logits last.
std::vector<Component> all_senders(const Transformer::Options& model);
std::vector<Receiver> all_receivers(const Transformer::Options& model);
///@}
/// Returns all edges of a model, ordered by receiver.
std::vector<Edge> all_edges(const Transformer::Options& model);

}  // namespace heed::lab
