// The inside of a matrix product, for one SIMD target: packing, and a tile of C kept in registers.
// gemm.cpp and attention.cpp include it once per target.
//
// B lies in panels two vectors wide; a strip of A is packed kRows rows high; the micro-kernel keeps
// a kRows x 2-vector tile of C over a block of k. Register counts set kRows.
#if defined(HEED_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_GEMM_INL_H_
#undef HEED_GEMM_INL_H_
#else
#define HEED_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

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

/// Columns of a panel of B.
template <class T>
HWY_INLINE std::int64_t panel_width() {
  return 2 * std::int64_t(hn::Lanes(Full<T>()));
}
template <class T>
HWY_INLINE std::int64_t panels_of(std::int64_t n) {
  return (n + panel_width<T>() - 1) / panel_width<T>();
}

/// C[kR x panel] (+)= strip of A times panel of B over kc steps. `first`: starts from bias or zero
/// instead of from C.
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
    case 1:
      return micro_kernel<1>(kc, a, b, c, c_row, first, bias);
    case 2:
      return micro_kernel<2>(kc, a, b, c, c_row, first, bias);
    case 3:
      return micro_kernel<3>(kc, a, b, c, c_row, first, bias);
    case 4:
      return micro_kernel<4>(kc, a, b, c, c_row, first, bias);
    case 5:
      return micro_kernel<5>(kc, a, b, c, c_row, first, bias);
    case 6:
      return micro_kernel<6>(kc, a, b, c, c_row, first, bias);
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
    case 7:
      return micro_kernel<7>(kc, a, b, c, c_row, first, bias);
    case 8:
      return micro_kernel<8>(kc, a, b, c, c_row, first, bias);
    case 9:
      return micro_kernel<9>(kc, a, b, c, c_row, first, bias);
    case 10:
      return micro_kernel<10>(kc, a, b, c, c_row, first, bias);
    case 11:
      return micro_kernel<11>(kc, a, b, c, c_row, first, bias);
    case 12:
      return micro_kernel<12>(kc, a, b, c, c_row, first, bias);
#endif
    default:
      return;
  }
}

/// Packs `width` columns of B over kc rows into a panel, zero-filled to its full width.
template <class T>
HWY_NOINLINE void pack_panel(T* HWY_RESTRICT out, const T* HWY_RESTRICT b, std::int64_t row,
                           std::int64_t col, std::int64_t kc, std::int64_t width) {
  const Full<T> d;
  const std::int64_t lanes = std::int64_t(hn::Lanes(d)), panel = 2 * lanes;
  if (width == panel && col == 1) {
    for (std::int64_t l = 0; l < kc; ++l) {
      hn::Store(hn::LoadU(d, b + l * row), d, out + l * panel);
      hn::Store(hn::LoadU(d, b + l * row + lanes), d, out + l * panel + lanes);
    }
    return;
  }
  // Along the unit stride of B in blocks of 16 rows, so that both sides stay in cache lines.
  for (std::int64_t l0 = 0; l0 < kc; l0 += 16) {
    const std::int64_t l1 = std::min(kc, l0 + 16);
    for (std::int64_t j = 0; j < width; ++j)
      for (std::int64_t l = l0; l < l1; ++l) out[l * panel + j] = b[l * row + j * col];
    for (std::int64_t l = l0; width < panel && l < l1; ++l)
      std::fill(out + l * panel + width, out + (l + 1) * panel, T{});
  }
}

/// Packs all panels of B [kc, n].
template <class T>
HWY_NOINLINE void pack_panels(T* out, const T* b, std::int64_t row, std::int64_t col, std::int64_t kc,
                            std::int64_t n) {
  const std::int64_t panel = panel_width<T>();
  for (std::int64_t j = 0; j < n; j += panel)
    pack_panel(out + j * kc, b + j * col, row, col, kc, std::min(panel, n - j));
}

template <class T>
HWY_NOINLINE void pack_strip(T* HWY_RESTRICT out, const T* HWY_RESTRICT a, std::int64_t row,
                           std::int64_t col, std::int64_t kc, int rows) {
  if (row == 1) {
    for (std::int64_t l = 0; l < kc; ++l)
      for (int r = 0; r < rows; ++r) out[l * rows + r] = a[r + l * col];
    return;
  }
  for (std::int64_t l0 = 0; l0 < kc; l0 += 16) {
    const std::int64_t l1 = std::min(kc, l0 + 16);
    for (int r = 0; r < rows; ++r)
      for (std::int64_t l = l0; l < l1; ++l) out[l * rows + r] = a[r * row + l * col];
  }
}

/// C [m, n] (+)= A [m, kc] times the first kc of the `packed_rows` rows that B was packed with
/// (kc <= kBlockK).
template <class T>
HWY_NOINLINE void multiply_packed(std::int64_t m, std::int64_t n, std::int64_t kc, const T* a,
                                std::int64_t a_row, std::int64_t a_col, const T* packed_b,
                                std::int64_t packed_rows, T* c, std::int64_t c_row,
                                std::int64_t c_col, bool first, const T* bias) {
  constexpr std::size_t kPanelMax = 2 * HWY_MAX_BYTES / sizeof(T);
  const std::int64_t panel = panel_width<T>();
  HWY_ALIGN T strip[kRows * kBlockK];
  HWY_ALIGN T edge[kRows * kPanelMax];
  HWY_ALIGN T edge_bias[kPanelMax];
  for (std::int64_t i = 0; i < m; i += kRows) {
    const int rows = int(std::min<std::int64_t>(kRows, m - i));
    pack_strip(strip, a + i * a_row, a_row, a_col, kc, rows);
    for (std::int64_t j = 0; j < n; j += panel) {
      const std::int64_t width = std::min(panel, n - j);
      const T* b = packed_b + j * packed_rows;
      T* out = c + i * c_row + j * c_col;
      const T* bias_j = bias ? bias + j : nullptr;
      if (width == panel && c_col == 1) {
        rows_kernel(rows, kc, strip, b, out, c_row, first, bias_j);
        continue;
      }
      // A ragged edge or a strided C goes through a full tile.
      if (bias) std::copy_n(bias_j, width, edge_bias);
      if (!first)
        for (int r = 0; r < rows; ++r)
          for (std::int64_t q = 0; q < width; ++q) edge[r * panel + q] = out[r * c_row + q * c_col];
      rows_kernel(rows, kc, strip, b, edge, panel, first, bias ? edge_bias : nullptr);
      for (int r = 0; r < rows; ++r)
        for (std::int64_t q = 0; q < width; ++q) out[r * c_row + q * c_col] = edge[r * panel + q];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
