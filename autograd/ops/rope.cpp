// Rotary position embedding: rotates each pair of channels by an angle that depends on the
// position.
#include <cmath>
#include <map>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples rope_samples(SampleGen& g);
const Op kRope(
    {.name = "rope", .saves = Saves::kNothing, .samples = rope_samples, .no_sizes = needs_axis()});

constexpr Index kMaxOffset = 1 << 24;  // positions up to this value are exact in float32

// Tables of the cosine and sine of position * base^(-2i/d), each [rows, d/2], for the positions
// `first` to first + rows - 1 and i = 0, ..., d/2 - 1.
struct Angles {
  Index first = 0, rows = 0;
  std::vector<double, PoolAllocator<double>> cosine, sine;
};

// Returns a table that has at least the positions `first` to first + rows - 1. Tables are cached
// per thread, because every layer and step uses the same positions, and generation with a KV cache
// uses the positions that follow. Only requested positions are computed.
const Angles& angles(Index first, Index rows, Index d, double base) {
  thread_local std::map<std::pair<Index, double>, Angles> cache;
  Angles& table = cache[{d, base}];
  if (first < table.first || first > table.first + table.rows) {
    table = {};
    table.first = first;
  }
  const Index half = d / 2;
  for (; table.first + table.rows < first + rows; ++table.rows)
    for (Index i = 0; i < half; ++i) {
      const double angle =
          double(table.first + table.rows) * std::pow(base, -2.0 * double(i) / double(d));
      table.cosine.push_back(std::cos(angle));
      table.sine.push_back(std::sin(angle));
    }
  return table;
}

// Rotates the pairs (i, i + d/2) of x [..., T, d] by their angles if `direction` is 1, and by the
// negative angles if it is -1.
Tensor rotate(const Tensor& x, const RopeOptions& o, int direction) {
  const Index t = x.size(-2), d = x.size(-1), half = d / 2;
  const Angles& table = angles(o.offset, t, d, o.base);
  Tensor y = empty_like(x);
  const Shape rows = x.shape().without(-1);
  const Strides sx = x.strides().sub(0, rows.rank()), sy = y.strides().sub(0, rows.rank());
  const Index step = x.strides().back();
  dispatch_floating(x.dtype(), kRope, [&]<class T> {
    if (y.numel() == 0) return;
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    for_each_run(StridedLoop<2>(rows, {&sx, &sy}), d, [&](const auto& at, Index n, const auto& s) {
      for (Index r = 0; r < n; ++r) {
        const T* a = in + at[0] + r * s[0];
        T* b = out + at[1] + r * s[1];
        const Index position = o.offset + (at[1] + r * s[1]) / d % t;  // y is row-major
        const Index row = (position - table.first) * half;
        for (Index i = 0; i < half; ++i) {
          const T c = T(table.cosine[std::size_t(row + i)]);
          const T w = T(direction * table.sine[std::size_t(row + i)]);
          const T u = a[i * step], v = a[(i + half) * step];
          b[i] = u * c - v * w;
          b[i + half] = u * w + v * c;
        }
      }
    });
  });
  return record(kRope, {x}, y,
                [o, direction](const Vjp& v) -> Grads { return {rotate(v.grad, o, -direction)}; });
}

}  // namespace

Tensor rope(const Tensor& x, const RopeOptions& options) {
  check(x.rank() >= 2 && x.size(-1) % 2 == 0, kRope, "needs [..., T, d] with an even d, got ",
        x.shape());
  check<ValueError>(options.base > 1, kRope, "needs base > 1, got ", options.base);
  check<ValueError>(options.offset >= 0 && options.offset <= kMaxOffset, kRope,
                    "needs an offset from 0 to ", kMaxOffset, ", got ", options.offset);
  return rotate(x, options, 1);
}

namespace {

Samples rope_samples(SampleGen& g) {
  const auto f = [](Args t) { return rope(t[0]); };
  const auto squared = [](Args t) { return rope(t[0] * t[0], {.base = 100}); };
  const auto later = [](Args t) { return rope(t[0], {.offset = 5}); };
  return {{"heads", f, {g.normal({1, 2, 3, 4})}},
          {"of a square", squared, {g.normal({3, 6})}},
          {"from position 5 on", later, {g.normal({2, 3, 4})}},
          {"no positions", f, {g.normal({0, 2})}},
          {"no channels", f, {g.normal({2, 0})}}};
}

}  // namespace

}  // namespace heed::autograd
