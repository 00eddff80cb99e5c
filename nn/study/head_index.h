// A head by its place in the model, as the field writes it: L1H0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// Layer and head, both from 0.
struct HeadIndex {
  std::int64_t layer, head;
  bool operator==(const HeadIndex&) const = default;
};
/// L1H0.
std::string head_name(const HeadIndex& head);
/// ValueError, which begins with `what`, for a head that the model has not.
void check_head(std::string_view what, const HeadIndex& head, const Transformer::Options& model);
/// "L1H0,L0H1" -> these heads. ValueError, which begins with `what`, for another text or heads that
/// the model has not.
std::vector<HeadIndex> parse_heads(std::string_view what, const std::string& text,
                                   const Transformer::Options& model);
/// By layer, then head.
std::vector<HeadIndex> all_heads(const Transformer::Options& model);

}  // namespace heed::nn
