// Vector versions of exp, erf and of the normal and logistic distribution functions, compiled for
// one SIMD target.
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

/// Returns e^x. The result is inf or 0 if e^x is out of range, and NaN if x is NaN; Highway's Exp()
/// does not guarantee these results.
template <class D, class V>
HWY_INLINE V vector_exp(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T kLargest = sizeof(T) == 4 ? T(88.722839) : T(709.78271289338397);
  constexpr T kSmallest = sizeof(T) == 4 ? T(-103.97) : T(-745.13);
  const V largest = hn::Set(d, kLargest), smallest = hn::Set(d, kSmallest);
  V y = hn::Exp(d, hn::Min(hn::Max(x, smallest), largest));
  y = hn::IfThenElse(hn::Gt(x, largest), hn::Inf(d), y);
  y = hn::IfThenZeroElse(hn::Lt(x, smallest), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

///@{
/// Returns e^x for use in softmax. The float64 version calls vector_exp(). The float32 version
/// takes half as long as vector_exp(), and its error is below 2 ulp. Its result is 0 if e^x is
/// below the smallest normal number (also for -inf), NaN if x is NaN, and unspecified for x > 88.
template <class D, class V, hwy::EnableIf<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE V exp_near_zero(D d, V x) {
  return vector_exp(d, x);
}
template <class D, class V, hwy::EnableIf<sizeof(hn::TFromD<D>) == 4>* = nullptr>
HWY_INLINE V exp_near_zero(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto c = [d](float v) HWY_ATTR { return hn::Set(d, v); };
  // x = n log(2) + r, where n is an integer and |r| <= log(2) / 2. Adding `shift` rounds x / log(2)
  // to n. The low bits of the sum then contain n.
  const V shift = c(12582912.0f);  // 1.5 * 2^23
  const V shifted = hn::MulAdd(x, c(1.44269504f), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = hn::NegMulAdd(n, c(-2.12194440e-4f), hn::NegMulAdd(n, c(0.693359375f), x));
  V p = c(0.0013814544072374701f);
  p = hn::MulAdd(p, r, c(0.008368714712560177f));
  p = hn::MulAdd(p, r, c(0.04166838899254799f));
  p = hn::MulAdd(p, r, c(0.1666652113199234f));
  p = hn::MulAdd(p, r, c(0.5f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, c(1.0f)));
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(exponent));  // 2^n
  return hn::IfThenZeroElse(hn::Lt(x, c(-87.33654f)), hn::Mul(p, power));
}
///@}

/// Returns erf(x) in float32. For |x| <= 0.92, the formula is x + x P(x^2). For larger |x|, the
/// formula is 1 - exp(-Q(|x|)) with the sign of x, where Q approximates -log(erfc). |x| is limited
/// to 3.95, because from there on erfc(|x|) is below half an ulp of 1. The polynomials P and Q were
/// fitted for heed; they minimize the largest relative error of erf.
template <class D, class V>
HWY_INLINE V vector_erf(D d, V x) {
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
  const V large = hn::CopySign(hn::Sub(c(1.0f), vector_exp(d, hn::Neg(q))), x);
  // If x is NaN, the comparison is false. The result is then `small`, which is also NaN.
  return hn::IfThenElse(hn::Gt(t, c(0.92f)), large, small);
}

/// The standard normal distribution at x: the density phi and the distribution function Phi.
template <class V>
struct Normal {
  V phi, Phi;
};
/// Returns phi(x) and Phi(x) in float32, and computes only one exponential. The formula for t = |x|
/// is Phi(-t) = exp(-t^2 / 2) R(1 / (1 + 0.2775 t)), as in Abramowitz and Stegun 7.1.26. R is a
/// polynomial of degree 6 that was fitted for heed and minimizes the largest error. If Phi >= 1e-5,
/// the relative error of Phi is below 1e-6. Otherwise the absolute error is below 1.2e-11.
template <class D, class V>
HWY_INLINE Normal<V> vector_normal(D d, V x) {
  const auto c = [d](float v) HWY_ATTR { return hn::Set(d, v); };
  const V t = hn::Abs(x);
  const V e = exp_near_zero(d, hn::Mul(c(-0.5f), hn::Mul(x, x)));
  const V u = hn::Div(c(1.0f), hn::MulAdd(c(0.2775f), t, c(1.0f)));
  V r = c(-0.11909507215023041f);
  r = hn::MulAdd(r, u, c(0.4611274003982544f));
  r = hn::MulAdd(r, u, c(-0.3609786927700043f));
  r = hn::MulAdd(r, u, c(0.37983062863349915f));
  r = hn::MulAdd(r, u, c(0.010198415257036686f));
  r = hn::MulAdd(r, u, c(0.13058313727378845f));
  r = hn::MulAdd(r, u, c(-0.0016658457461744547f));
  const V tail = hn::Mul(e, r);
  return {hn::Mul(e, c(float(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi))),
          hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(c(1.0f), tail), tail)};
}

/// The logistic function s = 1 / (1 + e^-x) and rest = 1 - s.
template <class V>
struct Logistic {
  V s, rest;
};
/// Returns s and `rest` = 1 - s in float32, both computed without cancellation.
template <class D, class V>
HWY_INLINE Logistic<V> vector_logistic(D d, V x) {
  const V one = hn::Set(d, 1.0f), e = exp_near_zero(d, hn::Neg(hn::Abs(x)));
  const V large = hn::Div(one, hn::Add(one, e)), small = hn::Mul(e, large);
  const auto positive = hn::Gt(x, hn::Zero(d));
  return {hn::IfThenElse(positive, large, small), hn::IfThenElse(positive, small, large)};
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
