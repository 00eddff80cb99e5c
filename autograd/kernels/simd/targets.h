// Which SIMD targets are compiled: include before hwy/foreach_target.h.
#pragma once

// The baseline is one lane for every compiler. Highway's EMU128, the other choice, reads the lanes
// that MaskedLoad leaves out, beyond the end of arrays (1.0.3; found by Clang's AddressSanitizer).
#define HWY_BROKEN_EMU128 1

#if defined(__x86_64__)
// The baseline, AVX2 and AVX-512 (AVX3). What lies between and beyond would bring multiply-adds
// nothing, and cost as much compile time again.
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_AVX2 | HWY_AVX3))
#else
// The kernels keep arrays of vectors in registers, and SVE's vectors have no size: ARM runs NEON.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
