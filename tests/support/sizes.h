// Samples of checks with additional sizes: 0, 1, rank 0 and large. The sample function of a check
// is called again with other shapes, so that masks and indices, which it also draws, get matching
// shapes.
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

inline constexpr std::int64_t kLargeSize = 67;  // a block of 64 columns and a remainder of 3
inline constexpr std::int64_t kMostElements = 100'000;

inline std::int64_t extent_of(SampleSize size) {
  return size == SampleSize::kZero ? 0 : size == SampleSize::kOne ? 1 : kLargeSize;
}

// Returns the samples of the check in other shapes; none if the check throws an Error for them.
inline Samples drawn(const Check& check, const Resize& resize) {
  try {
    return check.samples(resize);
  } catch (const Error&) {
    return {};
  }
}

// Returns true if the op accepts the sample and its value is finite. (The mean of an empty tensor,
// for example, is not.)
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

// Returns all sizes above 1 of all axes of all inputs.
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

/// Returns true if an input of the sample has that size.
inline bool has_size(const Sample& sample, SampleSize size) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(), [&](const Tensor& x) {
    if (size == SampleSize::kScalar) return x.rank() == 0;
    return std::any_of(x.shape().begin(), x.shape().end(), [&](std::int64_t n) {
      return size == SampleSize::kLarge ? n >= sizes::kLargeSize : n == sizes::extent_of(size);
    });
  });
}

/// Returns the samples of the check in which one of their sizes is replaced everywhere by `size`
/// (rank 0: all inputs have rank 0). Samples that the op does not accept are left out. For kLarge
/// only the smallest sample is returned. If an op accepts no sample of that size, it throws an
/// Error, and no_sizes() of the check contains the size.
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
