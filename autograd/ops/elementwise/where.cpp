// where, masked_fill, tril and triu. These ops select elements and never multiply by 0, because 0 *
// inf is NaN.
#include "autograd/graph/graph.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples where_samples(SampleGen& g);
Samples masked_fill_samples(SampleGen& g);
const Op kWhere(
    {.name = "where", .saves = Saves::kNothing, .broadcasts = true, .samples = where_samples});

const Op kMaskedFill({.name = "masked_fill",
                      .saves = Saves::kNothing,
                      .fills = true,
                      .samples = masked_fill_samples});

void check_mask(std::string_view op, const Tensor& mask) {
  check<DTypeError>(mask.dtype() == bool8, op, "needs a bool8 mask, got ", mask.dtype(),
                    "; compare first, as in ne(mask, 0)");
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a_in, const Tensor& b_in) {
  check_mask(kWhere, condition);
  Tensor a = a_in, b = b_in;
  const DType dtype = detail::unify(kWhere, a, b);
  const Shape shape = broadcast(kWhere, broadcast(kWhere, a.shape(), b.shape()), condition.shape());
  Tensor out = empty(shape, dtype);
  dispatch_any(dtype, [&]<class T> {
    elementwise_into<T, bool, T, T>(
        out, [](bool c, T x, T y) { return c ? x : y; }, condition, a, b);
  });
  if (!is_floating(dtype)) return out;
  return record(kWhere, {a_in, b_in}, out,
                [c = Captured(kWhere, condition)](const Vjp& v) -> Grads {
                  return {v.needs(0) ? masked_fill(v.grad, logical_not(c.get()), 0) : Tensor(),
                          v.needs(1) ? masked_fill(v.grad, c.get(), 0) : Tensor()};
                });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check_mask(kMaskedFill, mask);
  check(broadcast(kMaskedFill, x.shape(), mask.shape()) == x.shape(), kMaskedFill, "mask ",
        mask.shape(), " does not broadcast to ", x.shape());
  Tensor y = empty_like(x);
  dispatch_any(x.dtype(), [&]<class T> {
    const T fill = checked_cast<T>(kMaskedFill, value);
    elementwise_into<T, T, bool>(
        y, [fill](T v, bool m) { return m ? fill : v; }, x, mask);
  });
  if (!is_floating(x.dtype())) return y;
  return record(kMaskedFill, {x}, y, [m = Captured(kMaskedFill, mask)](const Vjp& v) -> Grads {
    return {masked_fill(v.grad, m.get(), 0)};
  });
}

Tensor tril_mask(Index rows, Index columns, Index diagonal) {
  Tensor mask = empty({rows, columns}, bool8);
  bool* m = mask.mutable_data<bool>();
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) m[i * columns + j] = j - i <= diagonal;
  return mask;
}

Tensor tril(const Tensor& x, Index diagonal) {
  check(x.rank() >= 2, "tril", "needs rank >= 2, got ", x.shape());
  return masked_fill(x, logical_not(tril_mask(x.size(-2), x.size(-1), diagonal)), 0);
}

Tensor triu(const Tensor& x, Index diagonal) {
  check(x.rank() >= 2, "triu", "needs rank >= 2, got ", x.shape());
  const Index lowest = -x.size(-2);  // from this diagonal down, all elements are kept
  return masked_fill(x, tril_mask(x.size(-2), x.size(-1), std::max(diagonal, lowest) - 1), 0);
}

namespace {

Samples where_samples(SampleGen& g) {
  const auto f = [m = g.mask({2, 3})](Args t) { return where(m, t[0], t[1]); };
  const auto column = [m = g.mask({2, 1})](Args t) { return where(m, t[0], t[1]); };
  return {{"same shape", f, {g.normal({2, 3}), g.normal({2, 3})}},
          {"all broadcast", column, {g.normal({1, 3}), g.normal({})}}};
}

Samples masked_fill_samples(SampleGen& g) {
  const auto f = [m = g.mask({3})](Args t) { return masked_fill(t[0], m, -3); };
  return {{"broadcast mask", f, {g.normal({2, 3})}},
          {"-inf, then exp",
           [f, m = g.mask({3})](Args t) { return exp(masked_fill(t[0], m, -kInf)); },
           {g.normal({2, 3})}}};
}

const Check kTril(
    "tril",
    [](SampleGen& g) -> Samples {
      return {{"rectangular", [](Args t) { return tril(t[0], 1); }, {g.normal({2, 3, 5})}}};
    },
    needs_axis());

const Check kTriu(
    "triu",
    [](SampleGen& g) -> Samples {
      return {{"rectangular", [](Args t) { return triu(t[0], -1); }, {g.normal({2, 4, 3})}}};
    },
    needs_axis());

}  // namespace

}  // namespace heed::autograd
