// Vector versions of exp and of the tails of GELU and of the logistic function, compiled
// for one SIMD target.
#if defined(HEED_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_VECTOR_MATH_INL_H_
#undef HEED_VECTOR_MATH_INL_H_
#else
#define HEED_VECTOR_MATH_INL_H_
#endif

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

/// Returns the polynomial in x with the coefficients c, from the highest power to the constant.
template <class D, class V, std::size_t n>
HWY_INLINE V polynomial(D d, V x, const float (&c)[n]) {
  V sum = hn::Set(d, c[0]);
  for (std::size_t k = 1; k < n; ++k) sum = hn::MulAdd(sum, x, hn::Set(d, c[k]));
  return sum;
}
/// Returns p in e^r = 1 + r + r^2 p, in float32 and for |r| <= log(2) / 2.
template <class D, class V>
HWY_INLINE V exp_polynomial(D d, V r) {
  return polynomial(d, r,
                    {0.0013814544072374701f, 0.008368714712560177f, 0.04166838899254799f,
                     0.1666652113199234f, 0.5f});
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
  const V e = hn::MulAdd(hn::Mul(r, r), exp_polynomial(d, r), hn::Add(r, c(1.0f)));  // e^r
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(exponent));  // 2^n
  return hn::IfThenZeroElse(hn::Lt(x, c(-87.33654f)), hn::Mul(e, power));
}
///@}

/// The lower tail of GELU in float32, for t in [0, kEnd]: value() returns -2^64 gelu(-t), and
/// slope() returns 2^64 gelu'(-t). For t > kEnd, gelu(-t) and gelu'(-t) round to 0.
/// reference/smooth.h has the formulas and defines R and W. Here R (3.375 + t) and W are
/// polynomials in v = 1 - 2 w, where w = t / (3.375 + t).
struct GeluTail {
  static constexpr float kEnd = 15;
  template <class D, class V>
  static HWY_INLINE V value(D d, V t) {
    const auto c = [d](float x) HWY_ATTR { return hn::Set(d, x); };
    const V w = hn::Div(t, hn::Add(c(3.375f), t)), v = hn::NegMulAdd(c(2.0f), w, c(1.0f));
    const V r = polynomial(
        d, v,
        {-0.00013490192941389978f, 0.0003092747356276959f, 0.0008496055961586535f,
         -0.0022507868707180023f, -0.007825096137821674f, 0.008719000965356827f,
         0.09838446229696274f, 0.2953759431838989f, 0.5529922246932983f, 0.7410802841186523f});
    return times_bell(d, hn::Mul(w, r), t);
  }
  template <class D, class V>
  static HWY_INLINE V slope(D d, V t) {
    const auto c = [d](float x) HWY_ATTR { return hn::Set(d, x); };
    const V w = hn::Div(t, hn::Add(c(3.375f), t)), v = hn::NegMulAdd(c(2.0f), w, c(1.0f));
    const V r =
        polynomial(d, v,
                   {2.865657370421104e-05f, 2.6608928237692453e-05f, -0.00038620014674961567f,
                    -0.0005872982437722385f, 0.003503302810713649f, 0.020210256800055504f,
                    0.057437773793935776f, 0.11342201381921768f, 0.47142288088798523f});
    const V distance = hn::Add(hn::Sub(c(0.7517915368080139f), t), c(-1.211444988769017e-08f));
    return times_bell(d, hn::Mul(distance, r), t);
  }

 private:
  // Returns 2^64 f e^(-t^2 / 2). The factor 2^64 keeps the power of 2 a normal number.
  template <class D, class V>
  static HWY_INLINE V times_bell(D d, V f, V t) {
    const hn::RebindToSigned<D> di;
    const auto c = [d](float v) HWY_ATTR { return hn::Set(d, v); };
    const V half = hn::Mul(c(-0.5f), t), x = hn::Mul(half, t);
    const V low = hn::MulSub(half, t, x);  // the rounding error of x
    const V shift = c(12582912.0f);        // as in exp_near_zero()
    const V shifted = hn::MulAdd(x, c(1.44269504f), shift);
    const V n = hn::Sub(shifted, shift);
    const V r =
        hn::Add(hn::NegMulAdd(n, c(0.693359375f), x), hn::NegMulAdd(n, c(-2.12194440e-4f), low));
    const V q = hn::MulAdd(hn::Mul(r, r), exp_polynomial(d, r), r);  // e^r - 1
    const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127 + 64));
    return hn::Mul(hn::MulAdd(f, q, f), hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
  }
};

template <class U>
struct LogisticTail;
#if HWY_TARGET != HWY_SCALAR  // one lane has no halves, and uses reference/smooth.h
/// Returns f(wide, x) rounded to float32, where `wide` is the tag of float64 vectors. f receives
/// each half of x, converted to float64.
template <class D, class V, class F>
HWY_INLINE V in_float64(D d, V x, F f) {
  const hn::RepartitionToWide<D> wide;
  const hn::Rebind<float, decltype(wide)> half;
  const auto low = f(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x)));
  const auto high = f(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x)));
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}

/// The lower tail of reference::LogisticGate, with the same factors as GeluTail. It is computed in
/// float64, so that the cancellation in the middle factor of the slope does not matter.
template <class U>
struct LogisticTail {
  static constexpr float kEnd = 128;
  template <class D, class V>
  static HWY_INLINE V value(D d, V x) {
    return in_float64(d, x, [](auto wide, auto t) HWY_ATTR {
      const auto e = exp_of_u(wide, t, hn::Mul(t, t));
      const auto scaled = hn::Mul(hn::Set(wide, 0x1p64), hn::Mul(t, e));
      return hn::Div(scaled, hn::Add(e, hn::Set(wide, 1.0)));
    });
  }
  template <class D, class V>
  static HWY_INLINE V slope(D d, V x) {
    return in_float64(d, x, [](auto wide, auto t) HWY_ATTR {
      const auto square = hn::Mul(t, t), e = exp_of_u(wide, t, square);
      const auto sum = hn::Add(e, hn::Set(wide, 1.0));
      const auto du = hn::MulAdd(square, hn::Set(wide, double(3 * U::kCubic)),
                                 hn::Set(wide, double(U::kLinear)));
      const auto scaled = hn::Mul(hn::Set(wide, 0x1p64), hn::NegMulAdd(t, du, sum));
      return hn::Div(hn::Mul(e, scaled), hn::Mul(sum, sum));
    });
  }

 private:
  template <class D, class V>
  static HWY_INLINE V exp_of_u(D d, V t, V square) {
    const V ratio =
        hn::MulAdd(square, hn::Set(d, double(-U::kCubic)), hn::Set(d, double(-U::kLinear)));
    return hn::Exp(d, hn::Mul(t, ratio));
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
