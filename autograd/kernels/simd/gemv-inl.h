// Products C = A B with a few rows of A, where the values of B are adjacent along k. The weight
// [out, in] of a linear layer is stored in this way, and generation of text multiplies one row per
// token by it. The function is declared here for each SIMD target and defined in gemv.cpp.
#if defined(HEED_GEMV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_GEMV_INL_H_
#undef HEED_GEMV_INL_H_
#else
#define HEED_GEMV_INL_H_
#endif

#include <cstdint>

#include "autograd/kernels/simd/gemm-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kFewRows = 8;      // most rows of A
constexpr std::int64_t kFewColumns = 32;  // a step of k of this many rows of the weight stays in L1

/// A vector of at most two blocks of 16 bytes. Intel's cores can execute two shuffles of such
/// vectors per cycle, but only one of larger vectors.
template <class T>
using Narrow = hn::CappedTag<T, 32 / sizeof(T)>;

/// Returns true if multiply_few_rows() accepts A [m, k] and B [k, n]. It requires at least as many
/// outputs as a vector has lanes.
template <class T>
HWY_INLINE bool is_few_rows(std::int64_t m, std::int64_t n, std::int64_t a_col,
                            std::int64_t b_row) {
  return m <= kFewRows && a_col == 1 && b_row == 1 && n >= std::int64_t(hn::MaxLanes(Narrow<T>()));
}

/// Computes C [m, n] (+)= A [m, kc] W^T. Requires m <= kFewRows, n <= kFewColumns and a.col == 1.
///
/// Row j of W starts at w + j * w_row. If n is not a multiple of the number of lanes of a vector,
/// the function also reads rows before w; they must exist. `first` and `bias` have the meaning that
/// micro_kernel() states. The results have the same bits as those of micro_kernel(), because each
/// sum over k is one chain of multiply-adds.
template <class T>
void multiply_few_rows(std::int64_t m, std::int64_t n, std::int64_t kc, Strips<T> a, const T* w,
                       std::int64_t w_row, T* c, std::int64_t c_row, std::int64_t c_col, bool first,
                       const T* bias);

extern template decltype(multiply_few_rows<float>) multiply_few_rows<float>;
extern template decltype(multiply_few_rows<double>) multiply_few_rows<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
