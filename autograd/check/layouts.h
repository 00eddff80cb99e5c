// Memory layouts in which samples are checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// Memory layout of a sample's inputs.
enum class CheckLayout {
  kContiguous,  ///< as the sample defines them
  kTransposed,  ///< the axes are reversed in memory
  kSliced,      ///< every second element along each axis; the elements between are NaN
  kExpanded,    ///< stride 0 along the last axis
  kAliased,     ///< inputs of one shape are the same tensor
};
/// All layouts, in the order of the enum.
inline constexpr CheckLayout kAllLayouts[] = {CheckLayout::kContiguous, CheckLayout::kTransposed,
                                              CheckLayout::kSliced, CheckLayout::kExpanded,
                                              CheckLayout::kAliased};
/// Returns a name such as "transposed" or "stride 0".
std::string_view layout_name(CheckLayout layout);

/// A sample in one layout, or the reason why the layout does not apply.
struct SampleInLayout {
  std::optional<Sample> sample;  ///< the sample, with the function changed to make the layout
  SkipReason why_not = {};       ///< empty if there is a sample
};
/// Returns the sample with its inputs in `layout`. There is none if the layout does not apply (a
/// rank-0 input cannot be transposed, a single input cannot be aliased). There is none either if
/// the sample forbids it: Sample::no_repeats excludes kExpanded and kAliased, which give one
/// element of memory to several entries.
SampleInLayout with_layout(const Sample& sample, CheckLayout layout);

}  // namespace heed::autograd
