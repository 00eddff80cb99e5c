// Memory layouts in which samples are checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// Memory layout of a sample's inputs.
enum class CheckLayout {
  kContiguous,  ///< the inputs as the sample defines them
  kTransposed,  ///< the axes are reversed in memory
  kSliced,      ///< every second element along each axis; the elements between are NaN
  kExpanded,    ///< stride 0 along the last axis
  kAliased,     ///< all inputs with the last input's shape are one tensor
};
/// All layouts, in the order of the enum.
inline constexpr CheckLayout kAllLayouts[] = {CheckLayout::kContiguous, CheckLayout::kTransposed,
                                              CheckLayout::kSliced, CheckLayout::kExpanded,
                                              CheckLayout::kAliased};
/// Returns a name such as "transposed" or "stride 0".
std::string_view layout_name(CheckLayout layout);

/// A sample in one layout, or the reason why the sample is not checked in it.
struct SampleInLayout {
  std::optional<Sample> sample;            ///< the sample; its function first makes the layout
  SkipReason why_not = SkipReason::kNone;  ///< reason if `sample` is empty
};
/// Returns the sample with its inputs in `layout`. Returns only a reason if the layout does not
/// apply: for example, a rank-0 input cannot be transposed, and a single input cannot be aliased.
/// Also returns only a reason for kExpanded and kAliased if Sample::no_repeats excludes them. In
/// these two layouts, several entries are one element of memory.
SampleInLayout with_layout(const Sample& sample, CheckLayout layout);

}  // namespace heed::autograd
