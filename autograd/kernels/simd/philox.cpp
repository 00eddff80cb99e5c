#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/philox.cpp"
// foreach_target.h wants this order.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/philox-inl.h"
#include "autograd/kernels/simd/philox.h"
#include <algorithm>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {

void keep_span(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  constexpr std::size_t kRun = 256;
  std::uint8_t memory[kRun + kKeepSlack];
  for (std::size_t at = 0; at < out.size(); at += kRun) {
    const std::size_t n = std::min(kRun, out.size() - at);
    std::copy_n(keep_run(mask, first + at, std::int64_t(n), memory), n, out.data() + at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {
HWY_EXPORT(keep_span);
}  // namespace

void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  HWY_DYNAMIC_DISPATCH(keep_span)(mask, first, out);
}

}  // namespace heed::autograd::kernels::simd
#endif
