// Products C = A B with a few rows of A, where the values of B are adjacent along k. The weight
// [out, in] of a linear layer is such a matrix B. Generating text multiplies one row per token by
// this weight. multiply_few_rows() is declared here for each SIMD target, and is defined in
// gemv.cpp.
#if defined(HEED_GEMV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_GEMV_INL_H_
#undef HEED_GEMV_INL_H_
#else
#define HEED_GEMV_INL_H_
#endif

#include "autograd/kernels/simd/gemm-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Largest number of rows of A.
constexpr Index kFewRows = 8;
// Largest number of rows of the weight W per call. The values of these rows for one step of k stay
// in L1.
constexpr Index kFewColumns = 32;

/// A vector of at most four blocks of 16 bytes.
template <class T>
using Narrow = hn::CappedTag<T, 64 / sizeof(T)>;

/// Returns true if multiply_few_rows() accepts A [m, k] and B [k, n]. n must be at least the number
/// of lanes of a vector.
template <class T>
HWY_INLINE bool is_few_rows(Index m, Index n, Index a_col, Index b_row) {
  return m <= kFewRows && a_col == 1 && b_row == 1 && n >= Index(hn::MaxLanes(Narrow<T>()));
}

/// Computes C = A W^T + bias if `first` is true, and otherwise C += A W^T. C is [m, n], A is [m,
/// kc] and W is [n, kc]. A null bias means 0. Requires m <= kFewRows, n <= kFewColumns and a.col ==
/// 1.
///
/// Row j of W starts at w + j * w_row. If n is not a multiple of the number of lanes of a vector,
/// the function also reads rows before w, which must exist. The results have the same bits as those
/// of micro_kernel(), because both add the terms of a sum over k one after the other.
template <class T>
void multiply_few_rows(Index m, Index n, Index kc, Strips<T> a, const T* w, Index w_row, T* c,
                       Index c_row, Index c_col, bool first, const T* bias);

extern template decltype(multiply_few_rows<float>) multiply_few_rows<float>;
extern template decltype(multiply_few_rows<double>) multiply_few_rows<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
