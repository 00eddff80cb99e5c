#include "autograd/check/sizes.h"

#include <algorithm>
#include <functional>
#include <set>

#include "autograd/base/error.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

constexpr std::int64_t kLargeSize = 67;  // a block of 64 columns and a rest
constexpr std::int64_t kMostElements = 100'000;

std::int64_t extent_of(SampleSize size) {
  return size == SampleSize::kZero ? 0 : size == SampleSize::kOne ? 1 : kLargeSize;
}

// The check's samples drawn in other shapes; none if that is refused.
Samples drawn(const Check& check, const Resize& resize) {
  try {
    return check.samples(resize);
  } catch (const Error&) {
    return {};
  }
}

// Whether the op takes it and has a finite value there, unlike the mean of nothing.
bool accepted(const Sample& s) {
  const NoGrad guard;
  try {
    return all(isfinite(s.f(s.inputs))).item() != 0;
  } catch (const Error&) {
    return false;
  }
}

std::int64_t elements(const Sample& s) {
  std::int64_t n = 0;
  for (const Tensor& x : s.inputs) n += x.numel();
  return n;
}

std::set<std::int64_t> extents(const Samples& samples) {
  std::set<std::int64_t> all;
  for (const Sample& s : samples)
    for (const Tensor& x : s.inputs)
      for (const std::int64_t n : x.shape())
        if (n > 1) all.insert(n);
  return all;
}

}  // namespace

std::string_view size_name(SampleSize size) {
  constexpr std::string_view kNames[] = {"size 0", "size 1", "rank 0", "large"};
  return kNames[std::size_t(size)];
}

bool has_size(const Sample& sample, SampleSize size) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(), [&](const Tensor& x) {
    if (size == SampleSize::kScalar) return x.rank() == 0;
    return std::any_of(x.shape().begin(), x.shape().end(), [&](std::int64_t n) {
      return size == SampleSize::kLarge ? n >= kLargeSize : n == extent_of(size);
    });
  });
}

Samples resized_samples(const Check& check, SampleSize size) {
  Samples found;
  const auto add = [&](const std::string& name, const Resize& resize) {
    for (Sample& s : drawn(check, resize)) {
      s.name += ", " + name;
      if (has_size(s, size)) found.push_back(std::move(s));
    }
  };
  if (size == SampleSize::kScalar) {
    add("rank 0", [](const Shape&) { return Shape{}; });
  } else {
    for (const std::int64_t n : extents(check.samples()))
      add(std::to_string(n) + " made " + std::to_string(extent_of(size)), [&](Shape shape) {
        for (int a = 0; a < shape.rank(); ++a)
          if (shape[a] == n) shape[a] = extent_of(size);
        heed::check<ValueError>(shape.numel() <= kMostElements, "resized_samples", shape,
                                " takes too long");
        return shape;
      });
  }
  if (size != SampleSize::kLarge) {
    std::erase_if(found, std::not_fn(accepted));
    return found;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Sample& a, const Sample& b) { return elements(a) < elements(b); });
  const auto smallest = std::find_if(found.begin(), found.end(), accepted);
  return smallest == found.end() ? Samples{} : Samples{*smallest};
}

}  // namespace heed::autograd
