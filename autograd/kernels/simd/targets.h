// Chooses the SIMD targets that are compiled. This header must be included before
// hwy/foreach_target.h.
#pragma once

// Makes HWY_SCALAR (vectors with one lane) the baseline for every compiler. The alternative is
// Highway's EMU128, whose MaskedLoad also reads lanes outside the mask, and therefore reads beyond
// the end of arrays (Highway 1.0.3; found with Clang's AddressSanitizer).
#define HWY_BROKEN_EMU128 1

#if defined(__x86_64__)
// Compiles the baseline, AVX2 and AVX-512 (AVX3). Highway's other targets would double the compile
// time and would not make multiply-adds faster.
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_AVX2 | HWY_AVX3))
#else
// The kernels need arrays of vectors, and SVE vectors have no compile-time size. On ARM, NEON is
// therefore compiled and SVE is not.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
