#include "nn/study/head_index.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace heed::nn {

namespace {

// Nothing for a text of another form.
std::optional<HeadIndex> read_head(std::string_view text) {
  const std::size_t h = text.find('H');
  if (!text.starts_with('L') || h == std::string_view::npos) return {};
  const auto layer = autograd::parse_number<std::int64_t>(text.substr(1, h - 1)),
             head = autograd::parse_number<std::int64_t>(text.substr(h + 1));
  if (!layer || !head) return {};
  return HeadIndex{*layer, *head};
}

}  // namespace

std::string head_name(const HeadIndex& h) {
  return "L" + std::to_string(h.layer) + "H" + std::to_string(h.head);
}

void check_head(std::string_view what, const HeadIndex& h, const Transformer::Options& model) {
  autograd::check<autograd::ValueError>(
      h.layer >= 0 && h.layer < model.layers && h.head >= 0 && h.head < model.attention.heads, what,
      "'", head_name(h), "' is no head of this model, which has L0H0 to ",
      head_name({model.layers - 1, model.attention.heads - 1}));
}

std::vector<HeadIndex> parse_heads(std::string_view what, const std::string& text,
                                   const Transformer::Options& model) {
  std::vector<HeadIndex> heads;
  std::istringstream words(text + ",");
  for (std::string word; std::getline(words, word, ',');) {
    const std::optional<HeadIndex> head = read_head(word);
    autograd::check<autograd::ValueError>(head.has_value(), what, "'", word,
                                          "' names no head; write them as L0H0,L0H1");
    check_head(what, *head, model);
    autograd::check<autograd::ValueError>(
        std::find(heads.begin(), heads.end(), *head) == heads.end(), what, "names ", word,
        " twice");
    heads.push_back(*head);
  }
  return heads;
}

std::vector<HeadIndex> all_heads(const Transformer::Options& model) {
  std::vector<HeadIndex> heads;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    for (std::int64_t head = 0; head < model.attention.heads; ++head)
      heads.push_back({layer, head});
  return heads;
}

}  // namespace heed::nn
