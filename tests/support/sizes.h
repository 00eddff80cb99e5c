// The sizes that samples are checked at besides their own: 0, 1, rank 0 and large. They are made by
// calling the sample function again with other shapes, so what it draws besides its inputs (masks,
// indices) changes with them.
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

inline constexpr std::int64_t kLargeSize = 67;  // a block of 64 columns and a rest
inline constexpr std::int64_t kMostElements = 100'000;

inline std::int64_t extent_of(SampleSize size) {
  return size == SampleSize::kZero ? 0 : size == SampleSize::kOne ? 1 : kLargeSize;
}

// The check's samples drawn in other shapes; none if that is refused.
inline Samples drawn(const Check& check, const Resize& resize) {
  try {
    return check.samples(resize);
  } catch (const Error&) {
    return {};
  }
}

// True if the op takes it and has a finite value there, unlike the mean of nothing.
inline bool accepted(const Sample& s) {
  const NoGrad guard;
  try {
    return all(isfinite(s.f(s.inputs))).item() != 0;
  } catch (const Error&) {
    return false;
  }
}

inline std::int64_t elements(const Sample& s) {
  std::int64_t n = 0;
  for (const Tensor& x : s.inputs) n += x.numel();
  return n;
}

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

/// True if an input of the sample has that size.
inline bool has_size(const Sample& sample, SampleSize size) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(), [&](const Tensor& x) {
    if (size == SampleSize::kScalar) return x.rank() == 0;
    return std::any_of(x.shape().begin(), x.shape().end(), [&](std::int64_t n) {
      return size == SampleSize::kLarge ? n >= sizes::kLargeSize : n == sizes::extent_of(size);
    });
  });
}

/// Returns the check's samples with one size among their shapes made that size everywhere (rank 0:
/// with all inputs of rank 0), where the op takes them, and of kLarge the smallest alone. An op
/// that takes none throws an Error there, and the check says so in no_sizes().
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
