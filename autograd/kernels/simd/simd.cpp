#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/simd.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/simd.h"
#include <algorithm>
#include "autograd/base/error.h"
#include "autograd/base/index.h"
#include "autograd/base/text.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
// Returns the name of this target. Highway's target SCALAR is called ONE_LANE, because heed uses
// the name SCALAR for the reference kernels.
const char* name() { return HWY_TARGET == HWY_SCALAR ? "ONE_LANE" : hwy::TargetName(HWY_TARGET); }
}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels {
HWY_EXPORT(name);

namespace {
constexpr std::string_view kScalar = "scalar";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return lower;
}

std::string name_of(Index target) {
  return target == HWY_SCALAR ? "one_lane" : lower_case(hwy::TargetName(target));
}

struct MachineTargets {
  Index supported = hwy::SupportedTargets();  // one bit per target
  std::vector<Index> usable = hwy::SupportedAndGeneratedTargets();
};
// Returns the SIMD targets of this machine. Highway is queried only once, because each query makes
// Highway 1.0.3 select the best target again.
const MachineTargets& machine_targets() {
  static const MachineTargets targets;
  return targets;
}
}  // namespace

const char* simd_target() { return simd_runs() ? HWY_DYNAMIC_DISPATCH(name)() : "SCALAR"; }

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const Index target : machine_targets().usable) names.push_back(name_of(target));
  names.emplace_back(kScalar);
  return names;
}

void force_simd_target(std::string_view name) {
  const std::vector<std::string> names = simd_targets();
  const std::string wanted = lower_case(name);
  check<ValueError>(wanted.empty() || std::find(names.begin(), names.end(), wanted) != names.end(),
                    "SIMD target", "'", name, "' is not available on this machine; choose one of ",
                    join(names));
  Index targets = machine_targets().supported;
  for (const Index target : machine_targets().usable)
    if (wanted == name_of(target)) targets = target;
  hwy::GetChosenTarget().Update(targets);
  detail::scalar_forced = wanted == kScalar;
}
}  // namespace heed::autograd::kernels
#endif
