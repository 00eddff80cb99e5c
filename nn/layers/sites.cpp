#include "nn/layers/sites.h"

namespace heed::nn {

namespace {

// Parses a name such as "L1H0". Returns nullopt for any other text.
std::optional<HeadIndex> read_head(std::string_view text) {
  const std::size_t h = text.find('H');
  if (!text.starts_with('L') || h == std::string_view::npos) return {};
  const auto layer = heed::parse_number<std::int64_t>(text.substr(1, h - 1)),
             head = heed::parse_number<std::int64_t>(text.substr(h + 1));
  if (!layer || !head) return {};
  return HeadIndex{*layer, *head};
}

}  // namespace

std::string head_name(const HeadIndex& h) { return head_range(h, 1); }

std::string head_range(const HeadIndex& first, Index count) {
  const std::string name = "L" + std::to_string(first.layer) + "H" + std::to_string(first.head);
  return count == 1 ? name : name + "-" + std::to_string(first.head + count - 1);
}

std::vector<HeadIndex> parse_heads(std::string_view what, const std::string& text, Index layers,
                                   Index heads) {
  return parse_list(what, text, [&](const std::string& word) {
    const std::optional<HeadIndex> head = read_head(word);
    heed::check<autograd::ValueError>(head.has_value(), what, "'", word,
                                      "' is not a head; write heads as L0H0,L0H1");
    check_component(what, *head, layers, heads);
    return *head;
  });
}

std::string component_name(const Component& c) {
  if (c.kind == Component::kEmbed) return "embed";
  return c.kind == Component::kHead ? head_name({c.layer, c.head})
                                    : "L" + std::to_string(c.layer) + "MLP";
}

void check_component(std::string_view what, const Component& c, Index layers, Index heads,
                     bool mlp) {
  if (c.kind == Component::kHead)
    heed::check<autograd::ValueError>(
        c.layer >= 0 && c.layer < layers && c.head >= 0 && c.head < heads, what, "'",
        component_name(c), "' is not a head of this model, which has L0H0 to ",
        head_name({layers - 1, heads - 1}));
  if (c.kind != Component::kMlp) return;
  heed::check<autograd::ValueError>(mlp, what, "'", component_name(c),
                                    "': this model does not have MLPs");
  heed::check<autograd::ValueError>(c.layer >= 0 && c.layer < layers, what, "'", component_name(c),
                                    "' is not an MLP of this model, which has L0MLP to ",
                                    component_name(Component::mlp(layers - 1)));
}

Component parse_component(std::string_view what, const std::string& text, Index layers, Index heads,
                          bool mlp) {
  std::optional<Component> c;
  if (text == "embed") c = Component();
  if (const std::optional<HeadIndex> head = read_head(text)) c = *head;
  if (text.starts_with('L') && text.ends_with("MLP"))
    if (const auto layer = heed::parse_number<std::int64_t>(text.substr(1, text.size() - 4)))
      c = Component::mlp(*layer);
  heed::check<autograd::ValueError>(
      c.has_value(), what, "'", text,
      "' is not a component; write heads as L0H1, MLPs as L0MLP, and the embedding as embed");
  check_component(what, *c, layers, heads, mlp);
  return *c;
}

std::vector<Component> parse_components(std::string_view what, const std::string& text,
                                        Index layers, Index heads, bool mlp) {
  return parse_list(what, text, [&](const std::string& word) {
    return parse_component(what, word, layers, heads, mlp);
  });
}

std::vector<HeadIndex> all_heads(Index layers, Index heads) {
  std::vector<HeadIndex> all;
  for (Index layer = 0; layer < layers; ++layer)
    for (Index head = 0; head < heads; ++head) all.push_back({layer, head});
  return all;
}

std::string block_name(Index layer) { return "blocks." + std::to_string(layer); }

std::string block_site(Index layer, std::string_view site) {
  return block_name(layer) + "." + std::string(site);
}

}  // namespace heed::nn
