// Loops over adjacent values in whole vectors and a shorter last vector, compiled for one SIMD
// target.
#if defined(HEED_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_VECTORS_INL_H_
#undef HEED_VECTORS_INL_H_
#else
#define HEED_VECTORS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>

#include "autograd/kernels/reference/reduce.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// True if masked loads and stores access only the lanes in their mask. NEON has no such
/// instructions, so Highway reads and writes whole vectors there. This is not safe, because the
/// lanes outside the mask may belong to another thread.
constexpr bool kExactMasks = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

/// Calls f(mask, load, store) for each whole vector of the values i, ..., n - 1, and then for the
/// shorter last vector if there is one. For an array p of n values, load(p) returns the current
/// vector of p, and store(v, p) overwrites it with v. In the last vector, lanes after the end of
/// the array are loaded as 0 and are not stored. `mask` is true for the lanes before the end.
template <class T = float, class F>
HWY_INLINE void for_each_vector(Index n, F f, Index i = 0) {
  using Tag = hn::ScalableTag<T>;
  const Tag d;
  const auto lanes = Index(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    f(
        hn::FirstN(d, hn::Lanes(d)), [=](const T* p) HWY_ATTR { return hn::LoadU(d, p + i); },
        [=](hn::Vec<Tag> v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  // With one lane, i == n always holds here. GCC 14 cannot derive this and would warn.
  if (i == n || hn::MaxLanes(d) == 1) return;
  const auto mask = hn::FirstN(d, std::size_t(n - i));
  if constexpr (kExactMasks) {
    f(
        mask, [=](const T* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p + i); },
        [=](hn::Vec<Tag> v, T* p) HWY_ATTR { hn::BlendedStore(v, mask, d, p + i); });
  } else {
    f(
        mask,
        [=](const T* p) HWY_ATTR {
          HWY_ALIGN T rest[hn::MaxLanes(Tag())] = {};
          std::copy(p + i, p + n, rest);
          return hn::Load(Tag(), rest);
        },
        [=](hn::Vec<Tag> v, T* p) HWY_ATTR {
          HWY_ALIGN T rest[hn::MaxLanes(Tag())];
          hn::Store(v, Tag(), rest);
          std::copy_n(rest, n - i, p + i);
        });
  }
}

/// The number of vectors in a block of a sum (blocked summation, see kShortRow in
/// reference/reduce.h).
constexpr Index kBlockVectors = 8;

/// Calls f(mask, load, store, sums) for each vector of n float32 values, as for_each_vector() does.
/// `sums` is an array of kSums vectors, to which f adds. Returns the sums of their lanes. A block
/// of kBlockVectors vectors is summed in float32, and the blocks are summed in float64.
template <std::size_t kSums, class F>
HWY_INLINE std::array<double, kSums> sum_row(Index n, F f) {
  const hn::ScalableTag<float> d;
  const Index block = kBlockVectors * Index(hn::Lanes(d));
  std::array<double, kSums> totals{};
  for (Index begin = 0; begin < n; begin += block) {
    hn::Vec<decltype(d)> sums[kSums];
    for (auto& s : sums) s = hn::Zero(d);
    for_each_vector(
        std::min(n, begin + block),
        [&](auto mask, auto load, auto store) HWY_ATTR { f(mask, load, store, sums); }, begin);
    for (std::size_t k = 0; k < kSums; ++k)
      totals[k] += double(hn::GetLane(hn::SumOfLanes(d, sums[k])));
  }
  return totals;
}

/// Computes y = a + b for n values. y may be the same array as a or b.
template <class T>
HWY_INLINE void add_vectors(T* y, const T* a, const T* b, Index n) {
  for_each_vector<T>(
      n, [&](auto, auto load, auto store) HWY_ATTR { store(hn::Add(load(a), load(b)), y); });
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
