#include "nn/study/paths.h"

#include <algorithm>
#include <optional>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

std::int64_t stage_of(const Component& c) {
  if (c.kind == Component::kEmbed) return -1;
  return 2 * c.layer + (c.kind == Component::kMlp);
}

std::int64_t stage_of(const Receiver& r, const Transformer::Options& model) {
  if (r.kind == Receiver::kLogits) return 2 * model.layers;
  return 2 * r.layer + (r.kind == Receiver::kMlp);
}

Receiver shared_receiver(Receiver r, const Transformer::Options& model) {
  const std::int64_t group = model.attention.heads / model.attention.kv_heads;
  if (r.kind == Receiver::kKey || r.kind == Receiver::kValue) r.head -= r.head % group;
  return r;
}

namespace {

using W = AttentionWeights;

// Site and weights of queries, keys and values, by Receiver::Kind.
struct Projection {
  const char* site;
  Tensor AttentionWeights::*weight;
  Tensor AttentionWeights::*bias;
};
constexpr Projection kProjections[] = {
    {"hook_q", &W::W_Q, &W::b_Q}, {"hook_k", &W::W_K, &W::b_K}, {"hook_v", &W::W_V, &W::b_V}};

constexpr std::string_view kKinds = "QKV";

std::optional<Receiver::Kind> read_kind(const std::string& text) {
  const std::size_t kind = text.size() == 1 ? kKinds.find(text) : std::string_view::npos;
  if (kind == std::string_view::npos) return {};
  return Receiver::Kind(kind);
}

Receiver receiver_of(const Component& c, Receiver::Kind kind) { return {kind, c.layer, c.head}; }

// Returns the name of a receiver: "L1H1.K", "L1MLP" or "logits".
std::string receiver_name(const Receiver& r) {
  if (r.kind == Receiver::kLogits) return "logits";
  const std::string name = component_name(component_of(r));
  return r.kind == Receiver::kMlp ? name : name + "." + kKinds[std::size_t(r.kind)];
}

Path parse_path(std::string_view what, const std::string& text, const Transformer::Options& o) {
  const std::vector<std::string> words = split(text, ':');
  const auto component = [&](const std::string& word) {
    return parse_component(what, word, o.layers, o.attention.heads, o.mlp);
  };
  Path path{component(words[0]), {}};
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::int64_t after = stage_of(path.sender);
    if (!path.receivers.empty()) after = stage_of(path.receivers.back(), o);
    Receiver r;
    if (const auto kind = read_kind(words[i])) {
      check<ValueError>(i + 1 < words.size(), what, "'", text, "' ends with ", words[i],
                        "; write the head that reads: L0H0:K:L1H1");
      const Component head = component(words[++i]);
      check<ValueError>(head.kind == Component::kHead, what, "'", text,
                        "': Q, K and V belong to a head, got '", words[i], "'");
      r = receiver_of(head, *kind);
    } else if (words[i] != "logits") {
      const Component c = component(words[i]);
      check<ValueError>(c.kind == Component::kMlp, what, "'", text, "': '", words[i],
                        "' reads through its queries, keys or values; write Q, K or V before it: "
                        "L0H0:K:L1H1");
      r = receiver_of(c, Receiver::kMlp);
    }
    check<ValueError>(path.receivers.empty() || path.receivers.back().kind != Receiver::kLogits,
                      what, "'", text, "': a path ends with logits; remove what follows");
    check<ValueError>(stage_of(r, o) > after, what, "'", text, "': ", receiver_name(r),
                      " cannot read ",
                      path.receivers.empty() ? words[0] : receiver_name(path.receivers.back()),
                      ", which does not come before it");
    path.receivers.push_back(r);
  }
  check<ValueError>(!path.receivers.empty(), what, "'", text,
                    "' has no receiver; write edges as L0H0:K:L1H1 and paths as "
                    "L0H0:K:L1H1:logits");
  path.receivers.back() = shared_receiver(path.receivers.back(), o);
  return path;
}

}  // namespace

const char* site_of(Receiver::Kind kind) { return kProjections[kind].site; }

Tensor project(const Receiver& r, const Tensor& x, const AttentionWeights& weights,
               const MultiHeadAttention::Options& o) {
  const Projection& p = kProjections[r.kind];
  const std::int64_t head = r.kind == Receiver::kQuery ? r.head : o.kv_head(r.head);
  const Tensor y = matmul(x, select(weights.*p.weight, 0, head)), b = weights.*p.bias;
  return b.defined() ? y + select(b, 0, head) : y;
}

Component component_of(const Receiver& r) {
  return r.kind == Receiver::kMlp ? Component::mlp(r.layer) : Component(r.layer, r.head);
}

std::string path_name(const Path& path) {
  std::string name = component_name(path.sender);
  for (const Receiver& r : path.receivers) {
    if (r.kind < Receiver::kMlp) name += std::string{':', kKinds[std::size_t(r.kind)]};
    name += ":" + (r.kind == Receiver::kLogits ? "logits" : component_name(component_of(r)));
  }
  return name;
}

std::vector<Path> parse_paths(std::string_view what, const std::string& text,
                              const Transformer::Options& model) {
  return parse_list(what, text,
                    [&](const std::string& word) { return parse_path(what, word, model); });
}

std::vector<Receiver> parse_receivers(std::string_view what, const std::string& text,
                                      const Transformer::Options& o) {
  if (text == "logits") return {{}};
  std::vector<Receiver> all;
  const std::int64_t group = o.attention.heads / o.attention.kv_heads;
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    for (std::int64_t head = 0; head < o.attention.heads; ++head)
      for (const auto kind : {Receiver::kQuery, Receiver::kKey, Receiver::kValue})
        if (kind == Receiver::kQuery || head % group == 0) all.push_back({kind, layer, head});
    if (o.mlp) all.push_back({Receiver::kMlp, layer, 0});
  }
  all.push_back({});
  if (text == "all") return all;
  const std::size_t dot = text.find('.');
  const Component c =
      parse_component(what, text.substr(0, dot), o.layers, o.attention.heads, o.mlp);
  const auto kind = dot == std::string::npos ? std::nullopt : read_kind(text.substr(dot + 1));
  const bool has_kind = kind.has_value() && c.kind == Component::kHead;
  check<ValueError>(c.kind != Component::kEmbed && (dot == std::string::npos || has_kind), what,
                    "'", text, "' is not a receiver; write L1H1, L1H1.K, L1MLP, logits or all");
  if (c.kind == Component::kMlp) return {receiver_of(c, Receiver::kMlp)};
  if (has_kind) return {shared_receiver(receiver_of(c, *kind), o)};
  return {receiver_of(c, Receiver::kQuery), shared_receiver(receiver_of(c, Receiver::kKey), o),
          shared_receiver(receiver_of(c, Receiver::kValue), o)};
}

std::vector<Path> edges_into(const std::vector<Receiver>& receivers,
                             const Transformer::Options& o) {
  std::vector<Component> senders{Component()};
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    for (std::int64_t head = 0; head < o.attention.heads; ++head) senders.emplace_back(layer, head);
    if (o.mlp) senders.push_back(Component::mlp(layer));
  }
  std::vector<Path> edges;
  for (const Receiver& r : receivers)
    for (const Component& c : senders)
      if (stage_of(c) < stage_of(r, o)) edges.push_back({c, {r}});
  return edges;
}

std::vector<Path> paths_through_heads(const Transformer::Options& o) {
  std::vector<Receiver> readers;
  for (const HeadIndex& h : all_heads(o.layers, o.attention.heads))
    for (const auto kind : {Receiver::kQuery, Receiver::kKey, Receiver::kValue})
      readers.push_back({kind, h.layer, h.head});
  std::vector<Path> paths = edges_into(readers, o);
  for (Path& path : paths) path.receivers.push_back({});
  return paths;
}

}  // namespace heed::nn
