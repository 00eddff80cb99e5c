// C = A B for a few rows of A where B is read along k, as a linear layer's weight [out, in] is:
// what generation does, token by token. Declared once per target; gemv.cpp has the definition.
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

constexpr std::int64_t kFewRows = 8;      // of A
constexpr std::int64_t kFewColumns = 32;  // a step of k of as many rows of the weight stays in L1

/// Two blocks of 16 bytes at most: for shuffles of more, Intel's cores have one port and not two.
template <class T>
using Narrow = hn::CappedTag<T, 32 / sizeof(T)>;

/// True if multiply_few_rows takes A [m, k] and B [k, n]: it reads whole vectors of outputs.
template <class T>
HWY_INLINE bool is_few_rows(std::int64_t m, std::int64_t n, std::int64_t a_col,
                            std::int64_t b_row) {
  return m <= kFewRows && a_col == 1 && b_row == 1 && n >= std::int64_t(hn::MaxLanes(Narrow<T>()));
}

/// C [m, n] (+)= A [m, kc] W^T, m <= kFewRows, n <= kFewColumns, a.col == 1. Row j of W is at
/// w + j * w_row. If n is not a multiple of a vector's lanes, rows in front of w fill it up: there
/// must be some. `first` and bias as in micro_kernel, and the same bits: each sum over k is one
/// chain of multiply-adds.
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
