// The memory layouts that samples are checked in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// How a sample's inputs lie in memory.
enum class CheckLayout { kContiguous, kTransposed, kSliced, kExpanded, kAliased };
inline constexpr CheckLayout kAllLayouts[] = {CheckLayout::kContiguous, CheckLayout::kTransposed,
                                              CheckLayout::kSliced, CheckLayout::kExpanded,
                                              CheckLayout::kAliased};
/// As "stride 0".
std::string_view layout_name(CheckLayout layout);

/// A sample in one layout, or why there is none.
struct SampleInLayout {
  std::optional<Sample> sample;
  SkipReason why_not = {};  ///< empty if there is a sample
};
/// The sample with its inputs laid out so, where that has a meaning (a rank-0 input cannot be
/// transposed, one input cannot be aliased) and the sample allows it (Sample::no_repeats: elements
/// that are one element of memory, expanded or aliased). kSliced surrounds the inputs with NaN.
SampleInLayout with_layout(const Sample& sample, CheckLayout layout);

}  // namespace heed::autograd
