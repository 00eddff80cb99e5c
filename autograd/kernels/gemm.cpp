// The fast gemm, once per SIMD target (Highway compiles this file again for each).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/gemm.cpp"
#include "autograd/kernels/targets.h"

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#include "autograd/kernels/gemm-inl.h"
#include "autograd/kernels/gemm.h"

#include <algorithm>
#include <cstdint>

#include "autograd/kernels/scratch.h"
#include "autograd/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kInPlaceRows = 8 * kRows;

// Rows [i0, i1) of one block of k, whose B lies in panels.
template <class T>
void multiply_rows(const Gemm<T>& g, const T* a, T* c, Panels<T> b, std::int64_t l0,
                   std::int64_t kc, std::int64_t i0, std::int64_t i1) {
  multiply_block(i1 - i0, g.n, kc, {a + i0 * g.a_row + l0 * g.a_col, g.a_row, g.a_col}, b,
                 c + i0 * g.c_row, g.c_row, g.c_col, l0 == 0 && !g.accumulate, g.bias);
}

template <class T>
void run(const Gemm<T>& g) {
  const std::int64_t panel = panel_width<T>(), panels = panels_of<T>(g.n);
  const std::int64_t batch = g.batch[0] * g.batch[1];
  const std::int64_t block = std::min(kBlockK, g.k);
  const auto at = [&](std::int64_t i, const std::int64_t* stride) {
    return i / g.batch[1] * stride[0] + i % g.batch[1] * stride[1];
  };
  // A few strips do not repay a copy of B.
  const bool in_place = readable_in_place<T>(g.b_col, g.n) && g.m <= kInPlaceRows;
  const std::int64_t packed_size = in_place ? 0 : panels * panel * block;
  constexpr std::int64_t kChunk = 1 << 16;  // multiply-adds that are worth a thread's attention
  const std::int64_t work = g.m * g.n * g.k;
  if (batch > 1 || work <= 2 * kChunk) {  // whole products per thread
    parallel_for(batch, kChunk / (work + 1), [&](std::int64_t from, std::int64_t to) {
      const Scratch<T> packed(packed_size);
      for (std::int64_t i = from; i < to; ++i)
        for (std::int64_t l0 = 0; l0 < g.k; l0 += kBlockK) {
          const std::int64_t kc = std::min(kBlockK, g.k - l0);
          const T* b = g.b + at(i, g.b_batch) + l0 * g.b_row;
          if (!in_place) pack_panels(packed.get(), b, g.b_row, g.b_col, kc, g.n);
          multiply_rows(g, g.a + at(i, g.a_batch), g.c + at(i, g.c_batch),
                        in_place ? Panels<T>{b, g.b_row, panel} : packed_panels(packed.get(), kc),
                        l0, kc, 0, g.m);
        }
    });
    return;
  }
  // One large product: pack together, then share out the rows.
  const Scratch<T> packed(packed_size);
  for (std::int64_t l0 = 0; l0 < g.k; l0 += kBlockK) {
    const std::int64_t kc = std::min(kBlockK, g.k - l0);
    const T* b = g.b + l0 * g.b_row;
    if (!in_place)
      parallel_for(panels, (1 << 14) / (panel * kc), [&](std::int64_t p0, std::int64_t p1) {
        pack_panels(packed.get() + p0 * panel * kc, b + p0 * panel * g.b_col, g.b_row, g.b_col, kc,
                    std::min(g.n, p1 * panel) - p0 * panel);
      });
    const std::int64_t strips = (g.m + kRows - 1) / kRows;
    parallel_for(strips, kChunk / (kRows * g.n * kc), [&](std::int64_t s0, std::int64_t s1) {
      multiply_rows(g, g.a, g.c,
                    in_place ? Panels<T>{b, g.b_row, panel} : packed_panels(packed.get(), kc), l0,
                    kc, s0 * kRows, std::min(g.m, s1 * kRows));
    });
  }
}

void run_float(const Gemm<float>& g) { run(g); }
void run_double(const Gemm<double>& g) { run(g); }

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels {
namespace {

HWY_EXPORT(run_float);
HWY_EXPORT(run_double);

template <class T, class Run>
void checked(const Gemm<T>& g, Run run) {
  if (g.m <= 0 || g.n <= 0 || g.batch[0] <= 0 || g.batch[1] <= 0) return;
  if (g.k <= 0) return gemm_reference(g);  // an empty sum: zero, bias, or C as it was
  run(g);
}

}  // namespace

void gemm(const Gemm<float>& g) { checked(g, HWY_DYNAMIC_DISPATCH(run_float)); }
void gemm(const Gemm<double>& g) { checked(g, HWY_DYNAMIC_DISPATCH(run_double)); }

}  // namespace heed::autograd::kernels
#endif
