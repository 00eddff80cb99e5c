// exp, erf and the normal distribution on vectors, for one SIMD target.
#if defined(HEED_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_VECTOR_MATH_INL_H_
#undef HEED_VECTOR_MATH_INL_H_
#else
#define HEED_VECTOR_MATH_INL_H_
#endif

#include <numbers>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^x, with inf above the largest finite result, 0 below the smallest, and NaN for NaN: Highway's
/// promises nothing there.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T kLargest = sizeof(T) == 4 ? T(88.722839) : T(709.78271289338397);
  constexpr T kSmallest = sizeof(T) == 4 ? T(-103.97) : T(-745.13);
  const V largest = hn::Set(d, kLargest), smallest = hn::Set(d, kSmallest);
  V y = hn::Exp(d, hn::Min(hn::Max(x, smallest), largest));
  y = hn::IfThenElse(hn::Gt(x, largest), hn::Inf(d), y);
  y = hn::IfThenZeroElse(hn::Lt(x, smallest), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// erf(x), float32. |x| < 0.92: x + x P(x^2). Above: 1 - exp(-Q(|x|)), Q fitted to -log(erfc); at
/// 3.95 and beyond erfc is below half an ulp of 1. P and Q are minimax fits of ours in the relative
/// error of erf (tools/fit_erf.py).
template <class D, class V>
HWY_INLINE V erf_of(D d, V x) {
  const auto c = [d](float v) HWY_ATTR { return hn::Set(d, v); };
  const V t = hn::Abs(x), s = hn::Mul(x, x);
  V p = c(-0.0005999404238536954f);
  p = hn::MulAdd(p, s, c(0.0049948301166296005f));
  p = hn::MulAdd(p, s, c(-0.02676771953701973f));
  p = hn::MulAdd(p, s, c(0.11281845718622208f));
  p = hn::MulAdd(p, s, c(-0.3761249780654907f));
  p = hn::MulAdd(p, s, c(0.12837915122509003f));
  const V small = hn::MulAdd(p, x, x);
  const V far = hn::Min(t, c(3.95f));
  V q = c(2.108240187226329e-05f);
  q = hn::MulAdd(q, far, c(-0.00043431646190583706f));
  q = hn::MulAdd(q, far, c(0.004170355387032032f));
  q = hn::MulAdd(q, far, c(-0.02511756494641304f));
  q = hn::MulAdd(q, far, c(0.10827720910310745f));
  q = hn::MulAdd(q, far, c(0.6333495378494263f));
  q = hn::MulAdd(q, far, c(1.1295136213302612f));
  q = hn::MulAdd(q, far, c(-0.00017441614181734622f));
  const V large = hn::CopySign(hn::Sub(c(1.0f), exp_of(d, hn::Neg(q))), x);
  // NaN takes the first branch: no comparison with it is true.
  return hn::IfThenElse(hn::Gt(t, c(0.92f)), large, small);
}

/// Phi(x) = (1 + erf(x / sqrt 2)) / 2
template <class D, class V>
HWY_INLINE V normal_cdf(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  const V u = hn::Mul(x, hn::Set(d, float(std::numbers::sqrt2 / 2)));
  return hn::MulAdd(half, erf_of(d, u), half);
}

/// phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
template <class D, class V>
HWY_INLINE V normal_pdf(D d, V x) {
  const V e = exp_of(d, hn::Mul(hn::Set(d, -0.5f), hn::Mul(x, x)));
  return hn::Mul(e, hn::Set(d, float(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi)));
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
