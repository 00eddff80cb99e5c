// Additional samples of gradient checks: samples with an axis of size 0, 1 or 67, and samples of
// rank 0. To draw them, the sample function of a check is called again with other shapes. The
// sample function also draws masks and indices, so their shapes match the inputs.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "autograd/base/error.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd::testing {
namespace sizes {

inline constexpr std::int64_t kLargeSize = 67;  // 64 columns are one block, 3 are a remainder
inline constexpr std::int64_t kMostElements = 100'000;

inline std::int64_t extent_of(SampleSize size) {
  return size == SampleSize::kZero ? 0 : size == SampleSize::kOne ? 1 : kLargeSize;
}

// Returns the samples of the check, with each shape changed by `resize`. Returns no samples if the
// check throws an Error for the changed shapes.
inline Samples drawn(const Check& check, const Resize& resize) {
  try {
    return check.samples(resize);
  } catch (const Error&) {
    return {};
  }
}

// Returns true if the op accepts the sample and all elements of its output are finite. For example,
// the mean of an empty tensor is not finite.
inline bool accepted(const Sample& s) {
  const NoGrad guard;
  try {
    return all(isfinite(s.f(s.inputs))).item() != 0;
  } catch (const Error&) {
    return false;
  }
}

// Returns the number of elements of all inputs.
inline std::int64_t elements(const Sample& s) {
  std::int64_t n = 0;
  for (const Tensor& x : s.inputs) n += x.numel();
  return n;
}

// Returns the set of all axis sizes above 1 in all inputs.
inline std::set<std::int64_t> extents(const Samples& samples) {
  std::set<std::int64_t> all;
  for (const Sample& s : samples)
    for (const Tensor& x : s.inputs)
      for (const std::int64_t n : x.shape())
        if (n > 1) all.insert(n);
  return all;
}

}  // namespace sizes

/// Returns "size 0", "size 1", "rank 0" or "large".
inline std::string_view size_name(SampleSize size) {
  constexpr std::string_view kNames[] = {"size 0", "size 1", "rank 0", "large"};
  return kNames[std::size_t(size)];
}

/// Returns true if an input of the sample has an axis of this size. For kScalar it returns true if
/// an input has rank 0.
inline bool has_size(const Sample& sample, SampleSize size) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(), [&](const Tensor& x) {
    if (size == SampleSize::kScalar) return x.rank() == 0;
    return std::any_of(x.shape().begin(), x.shape().end(), [&](std::int64_t n) {
      return size == SampleSize::kLarge ? n >= sizes::kLargeSize : n == sizes::extent_of(size);
    });
  });
}

/// Returns samples of the check in which all axes of one certain size have `size` instead. There is
/// a set of such samples for each size above 1. For kScalar all shapes have rank 0 instead. Samples
/// that the op does not accept are left out. For kLarge only the smallest sample is returned. If an
/// op must reject every sample of a size, no_sizes() of its check contains the size.
inline Samples resized_samples(const Check& check, SampleSize size) {
  Samples found;
  const auto add = [&](const std::string& name, const Resize& resize) {
    for (Sample& s : sizes::drawn(check, resize)) {
      s.name += ", " + name;
      if (has_size(s, size)) found.push_back(std::move(s));
    }
  };
  if (size == SampleSize::kScalar) {
    add("rank 0", [](const Shape&) { return Shape{}; });
  } else {
    for (const std::int64_t n : sizes::extents(check.samples()))
      add(std::to_string(n) + " made " + std::to_string(sizes::extent_of(size)), [&](Shape shape) {
        for (int a = 0; a < shape.rank(); ++a)
          if (shape[a] == n) shape[a] = sizes::extent_of(size);
        heed::check<ValueError>(shape.numel() <= sizes::kMostElements, "resized_samples", shape,
                                " takes too long");
        return shape;
      });
  }
  if (size != SampleSize::kLarge) {
    std::erase_if(found, std::not_fn(sizes::accepted));
    return found;
  }
  std::stable_sort(found.begin(), found.end(), [](const Sample& a, const Sample& b) {
    return sizes::elements(a) < sizes::elements(b);
  });
  const auto smallest = std::find_if(found.begin(), found.end(), sizes::accepted);
  return smallest == found.end() ? Samples{} : Samples{*smallest};
}

}  // namespace heed::autograd::testing
