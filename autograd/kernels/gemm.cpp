// The fast gemm, once per SIMD target (Highway compiles this file again for each).
//
// B is packed into panels two vectors wide; A is packed into strips of kRows; the micro-kernel keeps
// a kRows x 2-vector tile of C in registers over a block of k. Register counts set kRows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/gemm.cpp"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#include "autograd/kernels/gemm.h"

#include <algorithm>
#include <cstdint>

#include "autograd/parallel.h"
#include "autograd/pool.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kRows = 12;  // 32 registers: 24 of C, 2 of B, 1 of A
#else
constexpr int kRows = 6;  // 16 registers: 12 of C, 2 of B, 1 of A
#endif
constexpr std::int64_t kBlockK = 384;  // of k per pass: a strip of A stays in L1

template <class T>
using Full = hn::ScalableTag<T>;

// C[kR x 2 vectors] (+)= strip of A times panel of B over kc steps.
// `first`: start from bias or zero instead of from C.
template <int kR, class T>
HWY_INLINE void micro_kernel(std::int64_t kc, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b,
                             T* HWY_RESTRICT c, std::int64_t c_row, bool first,
                             const T* HWY_RESTRICT bias) {
  const Full<T> d;
  using V = hn::Vec<Full<T>>;
  const std::int64_t lanes = std::int64_t(hn::Lanes(d));
  V c0[kR], c1[kR];
  for (int r = 0; r < kR; ++r) {
    c0[r] = first ? (bias ? hn::LoadU(d, bias) : hn::Zero(d)) : hn::LoadU(d, c + r * c_row);
    c1[r] = first ? (bias ? hn::LoadU(d, bias + lanes) : hn::Zero(d))
                  : hn::LoadU(d, c + r * c_row + lanes);
  }
  for (std::int64_t l = 0; l < kc; ++l) {
    const V b0 = hn::Load(d, b), b1 = hn::Load(d, b + lanes);
    b += 2 * lanes;
    for (int r = 0; r < kR; ++r) {
      const V ar = hn::Set(d, a[r]);
      c0[r] = hn::MulAdd(ar, b0, c0[r]);
      c1[r] = hn::MulAdd(ar, b1, c1[r]);
    }
    a += kR;
  }
  for (int r = 0; r < kR; ++r) {
    hn::StoreU(c0[r], d, c + r * c_row);
    hn::StoreU(c1[r], d, c + r * c_row + lanes);
  }
}

template <class T>
HWY_INLINE void rows_kernel(int rows, std::int64_t kc, const T* a, const T* b, T* c,
                            std::int64_t c_row, bool first, const T* bias) {
  switch (rows) {
    case 1: return micro_kernel<1>(kc, a, b, c, c_row, first, bias);
    case 2: return micro_kernel<2>(kc, a, b, c, c_row, first, bias);
    case 3: return micro_kernel<3>(kc, a, b, c, c_row, first, bias);
    case 4: return micro_kernel<4>(kc, a, b, c, c_row, first, bias);
    case 5: return micro_kernel<5>(kc, a, b, c, c_row, first, bias);
    case 6: return micro_kernel<6>(kc, a, b, c, c_row, first, bias);
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
    case 7: return micro_kernel<7>(kc, a, b, c, c_row, first, bias);
    case 8: return micro_kernel<8>(kc, a, b, c, c_row, first, bias);
    case 9: return micro_kernel<9>(kc, a, b, c, c_row, first, bias);
    case 10: return micro_kernel<10>(kc, a, b, c, c_row, first, bias);
    case 11: return micro_kernel<11>(kc, a, b, c, c_row, first, bias);
    case 12: return micro_kernel<12>(kc, a, b, c, c_row, first, bias);
#endif
    default: return;
  }
}

// Packs columns [j, j + width) of B, rows [l0, l0 + kc), into kc x 2 lanes, zero-filled.
template <class T>
void pack_b(T* HWY_RESTRICT out, const T* b, std::int64_t row, std::int64_t col, std::int64_t kc,
            std::int64_t width, std::int64_t panel) {
  if (width == panel && col == 1) {
    for (std::int64_t l = 0; l < kc; ++l) std::copy_n(b + l * row, panel, out + l * panel);
    return;
  }
  for (std::int64_t j = 0; j < panel; ++j)
    for (std::int64_t l = 0; l < kc; ++l)
      out[l * panel + j] = j < width ? b[l * row + j * col] : T{};
}

template <class T>
void pack_a(T* HWY_RESTRICT out, const T* a, std::int64_t row, std::int64_t col, std::int64_t kc,
            int rows) {
  for (std::int64_t l = 0; l < kc; ++l)
    for (int r = 0; r < rows; ++r) out[l * rows + r] = a[r * row + l * col];
}

// Scratch from the pool for the duration of a call.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : bytes_(std::size_t(n) * sizeof(T)), data_(static_cast<T*>(pool_allocate(bytes_))) {}
  ~Scratch() { pool_free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

// Rows [i0, i1) of one product over one block of k, against all packed panels of B.
template <class T>
void multiply_rows(const Gemm<T>& g, const T* a, T* c, const T* packed_b, std::int64_t l0,
                   std::int64_t kc, std::int64_t i0, std::int64_t i1) {
  const Full<T> d;
  const std::int64_t panel = 2 * std::int64_t(hn::Lanes(d));
  const std::int64_t panels = (g.n + panel - 1) / panel;
  const bool first = l0 == 0 && !g.accumulate;
  HWY_ALIGN T strip[kRows * kBlockK];
  HWY_ALIGN T edge[kRows * 2 * HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T edge_bias[2 * HWY_MAX_BYTES / sizeof(T)];
  for (std::int64_t i = i0; i < i1; i += kRows) {
    const int rows = int(std::min<std::int64_t>(kRows, i1 - i));
    pack_a(strip, a + i * g.a_row + l0 * g.a_col, g.a_row, g.a_col, kc, rows);
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t j = p * panel, width = std::min(panel, g.n - j);
      const T* b = packed_b + p * panel * kc;
      T* out = c + i * g.c_row + j * g.c_col;
      const T* bias = g.bias ? g.bias + j : nullptr;
      if (width == panel && g.c_col == 1) {
        rows_kernel(rows, kc, strip, b, out, g.c_row, first, bias);
        continue;
      }
      // A ragged edge or a strided C goes through a full tile.
      if (bias) std::copy_n(bias, width, edge_bias);
      if (!first)
        for (int r = 0; r < rows; ++r)
          for (std::int64_t q = 0; q < width; ++q)
            edge[r * panel + q] = out[r * g.c_row + q * g.c_col];
      rows_kernel(rows, kc, strip, b, edge, panel, first, bias ? edge_bias : nullptr);
      for (int r = 0; r < rows; ++r)
        for (std::int64_t q = 0; q < width; ++q)
          out[r * g.c_row + q * g.c_col] = edge[r * panel + q];
    }
  }
}

template <class T>
void pack_panels(const Gemm<T>& g, const T* b, T* packed, std::int64_t l0, std::int64_t kc,
                 std::int64_t p0, std::int64_t p1) {
  const std::int64_t panel = 2 * std::int64_t(hn::Lanes(Full<T>()));
  for (std::int64_t p = p0; p < p1; ++p)
    pack_b(packed + p * panel * kc, b + l0 * g.b_row + p * panel * g.b_col, g.b_row, g.b_col, kc,
           std::min(panel, g.n - p * panel), panel);
}

template <class T>
void run(const Gemm<T>& g) {
  const std::int64_t panel = 2 * std::int64_t(hn::Lanes(Full<T>()));
  const std::int64_t panels = (g.n + panel - 1) / panel;
  const std::int64_t batch = g.batch[0] * g.batch[1];
  const std::int64_t block = std::min(kBlockK, g.k);
  const auto at = [&](std::int64_t i, const std::int64_t* stride) {
    return i / g.batch[1] * stride[0] + i % g.batch[1] * stride[1];
  };
  constexpr std::int64_t kChunk = 1 << 18;  // multiply-adds that are worth a thread's attention
  const std::int64_t work = g.m * g.n * g.k;
  if (batch > 1 || work <= 2 * kChunk) {  // whole products per thread
    parallel_for(batch, kChunk / (work + 1), [&](std::int64_t from, std::int64_t to) {
      const Scratch<T> packed(panels * panel * block);
      for (std::int64_t i = from; i < to; ++i)
        for (std::int64_t l0 = 0; l0 < g.k; l0 += kBlockK) {
          const std::int64_t kc = std::min(kBlockK, g.k - l0);
          pack_panels(g, g.b + at(i, g.b_batch), packed.get(), l0, kc, 0, panels);
          multiply_rows(g, g.a + at(i, g.a_batch), g.c + at(i, g.c_batch), packed.get(), l0, kc, 0,
                        g.m);
        }
    });
    return;
  }
  // One large product: pack together, then share out the rows.
  const Scratch<T> packed(panels * panel * block);
  for (std::int64_t l0 = 0; l0 < g.k; l0 += kBlockK) {
    const std::int64_t kc = std::min(kBlockK, g.k - l0);
    parallel_for(panels, (1 << 14) / (panel * kc),
                 [&](std::int64_t p0, std::int64_t p1) {
                   pack_panels(g, g.b, packed.get(), l0, kc, p0, p1);
                 });
    const std::int64_t strips = (g.m + kRows - 1) / kRows;
    parallel_for(strips, kChunk / (kRows * g.n * kc), [&](std::int64_t s0, std::int64_t s1) {
      multiply_rows(g, g.a, g.c, packed.get(), l0, kc, s0 * kRows, std::min(g.m, s1 * kRows));
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
