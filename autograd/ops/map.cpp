#include "autograd/ops/map.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heed::autograd {
namespace {

// n elements of Size bytes, strides in elements.
template <std::size_t Size>
void copy_sized(std::byte* y, std::int64_t y_stride, const std::byte* x, std::int64_t x_stride,
                std::int64_t n) {
  constexpr auto size = std::int64_t(Size);
  if (x_stride == 0) {
    std::array<std::byte, Size> value;
    std::memcpy(value.data(), x, Size);
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * y_stride * size, value.data(), Size);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(y + i * y_stride * size, x + i * x_stride * size, Size);
  }
}

// The elements of one strided run, brought together a piece at a time.
class Pieces {
 public:
  static constexpr std::int64_t kSize = 256;

  // Address of n <= kSize adjacent elements: those from `begin` on.
  const std::byte* at(std::int64_t begin, std::int64_t n) {
    const std::byte* from = from_ + begin * stride_ * size_;
    if (stride_ == 1) return from;
    if (stride_ != 0 || begin == 0) copy_elements(buffer_.data(), 1, from, stride_, n, size_);
    return buffer_.data();
  }
  Pieces(const Elements& x, std::int64_t offset, std::int64_t stride)
      : from_(x.at(offset)), stride_(stride), size_(x.size) {}

 private:
  const std::byte* from_;
  std::int64_t stride_, size_;
  alignas(Tracked) std::array<std::byte, kSize * sizeof(Tracked)> buffer_;
};

// Runs `loop` over N operands.
template <std::size_t... K>
void run_over(const Tensor& out, const Tensor* const* in, detail::Loop loop, const void* f,
              std::index_sequence<K...>) {
  constexpr std::size_t kCount = sizeof...(K);
  const Elements y(out);
  const std::array<Elements, kCount> x{Elements(*in[K])...};
  const Shape& shape = out.shape();
  const auto fills = [&](const Layout& l) { return l.shape == shape && l.is_contiguous(); };
  if ((fills(in[K]->layout()) && ...))
    return parallel_for(out.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const void* const at[] = {x[K].at(begin)...};
      loop(f, y.at(begin), at, end - begin);
    });
  const std::array<Strides, kCount> strides{expanded("map", in[K]->layout(), shape).strides...};
  for_each_run(StridedLoop<kCount + 1>(shape, {&out.strides(), &strides[K]...}),
               [&](const auto& offset, std::int64_t n, const auto& stride) {
                 const bool adjacent = ((stride[K + 1] == 1) && ...);
                 const std::int64_t size = adjacent ? n : Pieces::kSize;
                 std::array<Pieces, kCount> pieces{Pieces(x[K], offset[K + 1], stride[K + 1])...};
                 for (std::int64_t begin = 0; begin < n; begin += size) {
                   const std::int64_t count = std::min(size, n - begin);
                   const void* const at[] = {pieces[K].at(begin, count)...};
                   loop(f, y.at(offset[0] + begin), at, count);
                 }
               });
}

detail::Loop loop_for(std::string_view op, DType dtype, const detail::Loops& loops) {
  const detail::Loop loop = loops[std::size_t(dtype)];
  check<DTypeError>(loop, op, "needs float32",
                    loops[std::size_t(int64)] ? ", float64 or int64" : " or float64", ", got ",
                    dtype);
  return loop;
}

// The two-operand op, its result of the operands' dtype unless another is given.
Tensor zip_as(std::string_view op, const Tensor& a, const Tensor& b, const detail::Loops& loops,
              const void* f, const DType* result) {
  if (a.dtype() != b.dtype()) {
    Tensor x = a, y = b;
    unify(op, x, y);
    return zip_as(op, x, y, loops, f, result);
  }
  const Shape shape = broadcast(op, a.shape(), b.shape());
  const detail::Loop loop = loop_for(op, a.dtype(), loops);
  Tensor out = empty(shape, result ? *result : a.dtype());
  detail::run(out, {&a, &b}, loop, f);
  return out;
}

}  // namespace

void copy_elements(std::byte* y, std::int64_t y_stride, const std::byte* x, std::int64_t x_stride,
                   std::int64_t n, std::int64_t size) {
  if (y_stride == 1 && x_stride == 1)
    std::memcpy(y, x, std::size_t(n * size));
  else if (size == 1)
    copy_sized<1>(y, y_stride, x, x_stride, n);
  else if (size == 4)
    copy_sized<4>(y, y_stride, x, x_stride, n);
  else if (size == 8)
    copy_sized<8>(y, y_stride, x, x_stride, n);
  else if (size == sizeof(Dual))
    copy_sized<sizeof(Dual)>(y, y_stride, x, x_stride, n);
  else
    copy_sized<sizeof(Tracked)>(y, y_stride, x, x_stride, n);
}

namespace detail {

const Loops kSimdMap{[](const void* f, void* y, const void* const* in, std::int64_t n) {
  (*static_cast<const SimdMap*>(f))(static_cast<float*>(y), static_cast<const float*>(in[0]), n);
}};
const Loops kSimdZip{[](const void* f, void* y, const void* const* in, std::int64_t n) {
  (*static_cast<const SimdZip*>(f))(static_cast<float*>(y), static_cast<const float*>(in[0]),
                                    static_cast<const float*>(in[1]), n);
}};

void run(const Tensor& out, std::initializer_list<const Tensor*> in, Loop loop, const void* f) {
  if (in.size() == 1) return run_over(out, in.begin(), loop, f, std::make_index_sequence<1>());
  if (in.size() == 2) return run_over(out, in.begin(), loop, f, std::make_index_sequence<2>());
  run_over(out, in.begin(), loop, f, std::make_index_sequence<3>());
}

Tensor map(std::string_view op, const Tensor& x, const Loops& loops, const void* f) {
  const Loop loop = loop_for(op, x.dtype(), loops);
  Tensor y = empty_like(x);
  run(y, {&x}, loop, f);
  return y;
}

Tensor zip(std::string_view op, const Tensor& a, const Tensor& b, const Loops& loops,
           const void* f) {
  return zip_as(op, a, b, loops, f, nullptr);
}

Tensor zip_to_bool(std::string_view op, const Tensor& a, const Tensor& b, const Loops& loops,
                   const void* f) {
  static constexpr DType kResult = bool8;
  return zip_as(op, a, b, loops, f, &kResult);
}

DType unify(std::string_view op, std::span<Tensor* const> operands) {
  DType dtype = operands[0]->dtype();
  for (const Tensor* x : operands.subspan(1)) {
    if (!x->defined() || x->dtype() == dtype) continue;
    const DType other = x->dtype();
    const bool lifts = (is_dual(dtype) && other == float64) || (dtype == float64 && is_dual(other));
    check<DTypeError>(lifts, op, "dtypes differ: ", dtype, " and ", other,
                      "; convert one with to(x, dtype)");
    if (is_dual(other)) dtype = other;
  }
  if (!is_dual(dtype)) return dtype;
  const Tensor like = **std::find_if(operands.begin(), operands.end(), [dtype](const Tensor* x) {
    return x->defined() && x->dtype() == dtype;
  });
  for (Tensor* x : operands)
    if (x->defined()) *x = lift(op, *x, like);
  return dtype;
}

}  // namespace detail

std::uint64_t noise_seed(const Tensor& x) {
  if (x.dtype() != tracked64) return 0;
  for (const Tracked& entry : x.to_vector<Tracked>())
    if (entry.seed != 0) return entry.seed;
  return 0;
}

Tensor lift(std::string_view op, const Tensor& x, const Tensor& like) {
  if (x.dtype() == like.dtype()) return x;
  check<DTypeError>(x.dtype() == float64, op, "dual numbers mix with float64 only, got ",
                    x.dtype());
  Tensor y = empty(x.shape(), like.dtype());
  if (like.dtype() == dual64)
    map_into<Dual, double>(
        y, [](double v) { return Dual(v); }, x);
  else
    map_into<Tracked, double>(
        y, [seed = noise_seed(like)](double v) { return Tracked::with_noise(v, seed).round(); }, x);
  return y;
}

void copy_into(const Tensor& y, const Tensor& x) {
  const Elements to(y), from(x);
  const std::int64_t size = from.size;
  if (x.numel() <= 64 && x.is_contiguous() && y.is_contiguous()) {  // not worth a loop's setup
    std::memcpy(to.at(0), from.at(0), std::size_t(x.numel() * size));
    return;
  }
  for_each_run(StridedLoop<2>(x.shape(), {&y.strides(), &x.strides()}),
               [&](const auto& at, std::int64_t n, const auto& s) {
                 copy_elements(to.at(at[0]), s[0], from.at(at[1]), s[1], n, size);
               });
}

Tensor detached_copy(const Tensor& x) {
  Tensor y = empty_like(x);
  copy_into(y, x);
  return y;
}

Tensor row_major(const Tensor& x) { return x.is_contiguous() ? x : detached_copy(x); }

Tensor scalar_like(std::string_view op, const Tensor& x, double value) {
  const DType dtype = is_dual(x.dtype()) ? float64 : x.dtype();
  check<DTypeError>(dtype != int64 || (value == std::trunc(value) && std::abs(value) < 0x1p63), op,
                    value, " is no int64; convert the tensor with to(x, dtype)");
  return full({}, value, dtype);
}

}  // namespace heed::autograd
