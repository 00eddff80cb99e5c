// Which SIMD targets are compiled: include before hwy/foreach_target.h.
#pragma once

// The kernels keep arrays of vectors in registers, and SVE's vectors have no size: ARM runs NEON.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
