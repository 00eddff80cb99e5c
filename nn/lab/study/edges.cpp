#include "nn/lab/study/edges.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/lab/study/ablation.h"

namespace heed::lab {

using autograd::ValueError;

Index stage_of(const Component& c) {
  if (c.kind == Component::kEmbed) return -1;
  return 2 * c.layer + (c.kind == Component::kMlp);
}

Index stage_of(const Receiver& r, const Transformer::Options& model) {
  if (r.kind == Receiver::kLogits) return 2 * model.layers;
  return 2 * r.layer + (r.kind == Receiver::kMlp);
}

namespace {

constexpr std::string_view kKinds = "QKV";

// Returns the name of a receiver: "L1H1.K", "L1MLP" or "logits".
std::string receiver_name(const Receiver& r) {
  if (r.kind == Receiver::kLogits) return "logits";
  const std::string name = component_name(component_of(r));
  return r.kind == Receiver::kMlp ? name : name + "." + kKinds[std::size_t(r.kind)];
}

Edge parse_edge(std::string_view what, const std::string& text, const Transformer::Options& o) {
  const std::vector<std::string> words = split(text, ':');
  const auto component = [&](const std::string& word) {
    return parse_component(what, word, o.layers, o.attention.heads, o.mlp);
  };
  Edge edge{component(words[0]), {}};
  check<ValueError>(words.size() > 1, what, "'", text,
                    "' has no receiver; write an edge as L0H0:K:L1H1");
  Receiver& r = edge.receiver;
  const std::size_t kind = words[1].size() == 1 ? kKinds.find(words[1]) : std::string::npos;
  const bool is_kind = kind != std::string::npos;
  if (is_kind) {
    check<ValueError>(words.size() > 2, what, "'", text, "' ends with ", words[1],
                      "; write the head that reads: L0H0:K:L1H1");
    const Component head = component(words[2]);
    check<ValueError>(head.kind == Component::kHead, what, "'", text,
                      "': Q, K and V belong to a head, got '", words[2], "'");
    r = {Receiver::Kind(kind), head.layer, head.head};
    const Index group = o.attention.heads / o.attention.kv_heads;
    if (r.kind != Receiver::kQuery) r.head -= r.head % group;
  } else if (words[1] != "logits") {
    const Component c = component(words[1]);
    check<ValueError>(c.kind == Component::kMlp, what, "'", text, "': '", words[1],
                      "' reads through its queries, keys or values; write Q, K or V before it: "
                      "L0H0:K:L1H1");
    r = {Receiver::kMlp, c.layer, 0};
  }
  const std::size_t length = is_kind ? 3 : 2;
  check<ValueError>(words.size() == length, what, "'", text,
                    "': an edge has one receiver; remove what follows ", words[length - 1]);
  check<ValueError>(stage_of(r, o) > stage_of(edge.sender), what, "'", text,
                    "': ", receiver_name(r), " cannot read ", words[0],
                    ", which does not come before it");
  return edge;
}

}  // namespace

Component component_of(const Receiver& r) {
  return r.kind == Receiver::kMlp ? Component::mlp(r.layer) : Component(r.layer, r.head);
}

std::string edge_name(const Edge& edge) {
  const Receiver& r = edge.receiver;
  std::string name = component_name(edge.sender);
  if (r.kind < Receiver::kMlp) name += std::string{':', kKinds[std::size_t(r.kind)]};
  return name + ":" + (r.kind == Receiver::kLogits ? "logits" : component_name(component_of(r)));
}

std::vector<Edge> parse_edges(std::string_view what, const std::string& text,
                              const Transformer::Options& model) {
  return parse_list(what, text,
                    [&](const std::string& word) { return parse_edge(what, word, model); });
}

std::vector<Component> all_senders(const Transformer::Options& o) {
  std::vector<Component> senders = all_components(o);
  senders.insert(senders.begin(), Component());
  return senders;
}

std::vector<Receiver> all_receivers(const Transformer::Options& o) {
  std::vector<Receiver> receivers;
  const Index group = o.attention.heads / o.attention.kv_heads;
  for (Index layer = 0; layer < o.layers; ++layer) {
    for (Index head = 0; head < o.attention.heads; ++head)
      for (const auto kind : {Receiver::kQuery, Receiver::kKey, Receiver::kValue})
        if (kind == Receiver::kQuery || head % group == 0) receivers.push_back({kind, layer, head});
    if (o.mlp) receivers.push_back({Receiver::kMlp, layer, 0});
  }
  receivers.push_back({});
  return receivers;
}

std::vector<Edge> all_edges(const Transformer::Options& o) {
  std::vector<Edge> edges;
  for (const Receiver& r : all_receivers(o))
    for (const Component& c : all_senders(o))
      if (stage_of(c) < stage_of(r, o)) edges.push_back({c, r});
  return edges;
}

}  // namespace heed::lab
