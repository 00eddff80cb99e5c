#include "autograd/ops/elementwise.h"

#include <algorithm>

#include "autograd/base/strided.h"
#include "autograd/ops/operands.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd::detail {
namespace {

// The elements of one strided run, copied into adjacent memory one piece at a time.
class Pieces {
 public:
  static constexpr Index kSize = 256;

  // Returns the address of n adjacent elements: the elements of the run from `begin` on if the
  // stride is 1, else a copy of them. For a copy, n must be at most kSize.
  const std::byte* at(Index begin, Index n) {
    const std::byte* from = from_ + begin * stride_ * size_;
    if (stride_ == 1) return from;
    if (stride_ != 0 || begin == 0) copy_elements(buffer_.data(), 1, from, stride_, n, size_);
    return buffer_.data();
  }
  Pieces(const Elements& x, Index offset, Index stride)
      : from_(x.at(offset)), stride_(stride), size_(x.size) {}

 private:
  const std::byte* from_;
  Index stride_, size_;
  alignas(Tracked) std::array<std::byte, kSize * sizeof(Tracked)> buffer_;
};

// Fills all of `out` by calls of `loop`. The operands are in[0], in[1], and so on.
template <std::size_t... K>
void run_over(const Tensor& out, const Tensor* const* in, Loop loop, const void* f,
              std::index_sequence<K...>) {
  constexpr std::size_t kCount = sizeof...(K);
  const Elements y(out);
  const std::array<Elements, kCount> x{Elements(*in[K])...};
  const Shape& shape = out.shape();
  const auto fills = [&](const Layout& l) { return l.shape == shape && l.is_contiguous(); };
  if ((fills(in[K]->layout()) && ...))
    return parallel_for(out.numel(), kGrain, [&](Index begin, Index end) {
      const void* const at[] = {x[K].at(begin)...};
      loop(f, y.at(begin), at, end - begin);
    });
  const std::array<Strides, kCount> strides{expanded("map", in[K]->layout(), shape).strides...};
  for_each_run(StridedLoop<kCount + 1>(shape, {&out.strides(), &strides[K]...}),
               [&](const auto& offset, Index n, const auto& stride) {
                 const bool adjacent = ((stride[K + 1] == 1) && ...);
                 const Index size = adjacent ? n : Pieces::kSize;
                 std::array<Pieces, kCount> pieces{Pieces(x[K], offset[K + 1], stride[K + 1])...};
                 for (Index begin = 0; begin < n; begin += size) {
                   const Index count = std::min(size, n - begin);
                   const void* const at[] = {pieces[K].at(begin, count)...};
                   loop(f, y.at(offset[0] + begin), at, count);
                 }
               });
}

}  // namespace

const Loops kSimdMap{.of = {[](const void* f, void* y, const void* const* in, Index n) {
                       (*static_cast<const SimdMap*>(f))(static_cast<float*>(y),
                                                         static_cast<const float*>(in[0]), n);
                     }}};
const Loops kSimdZip{.of = {[](const void* f, void* y, const void* const* in, Index n) {
                       (*static_cast<const SimdZip*>(f))(static_cast<float*>(y),
                                                         static_cast<const float*>(in[0]),
                                                         static_cast<const float*>(in[1]), n);
                     }}};

void run(const Tensor& out, std::initializer_list<const Tensor*> in, Loop loop, const void* f) {
  if (in.size() == 1) return run_over(out, in.begin(), loop, f, std::make_index_sequence<1>());
  if (in.size() == 2) return run_over(out, in.begin(), loop, f, std::make_index_sequence<2>());
  run_over(out, in.begin(), loop, f, std::make_index_sequence<3>());
}

Tensor run_new(std::string_view op, std::initializer_list<const Tensor*> in, const Loops& loops,
               const void* f) {
  // If there is only one operand, a and b are the same tensor.
  const Tensor &a = **in.begin(), &b = **(in.end() - 1);
  const DType dtype = a.dtype();
  if (b.dtype() != dtype) {
    Tensor x = a, y = b;
    unify(op, x, y);
    return run_new(op, {&x, &y}, loops, f);
  }
  const Shape shape = broadcast(op, a.shape(), b.shape());
  const Loop loop = loops.of[std::size_t(dtype)];
  check<DTypeError>(loop, op, "needs float32",
                    loops.of[std::size_t(int64)] ? ", float64 or int64" : " or float64", ", got ",
                    dtype);
  Tensor out = empty(shape, loops.to_bool ? bool8 : dtype);
  run(out, in, loop, f);
  return out;
}

}  // namespace heed::autograd::detail
