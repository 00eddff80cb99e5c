// The inside of a matrix product, for one SIMD target: packing, and a tile of C kept in registers.
// The files of products and attention include it once per target.
//
// B is read in panels two vectors wide, A in strips of kRows rows; the micro-kernel keeps a strip x
// panel tile of C in registers over a block of k. Both are copied ("packed") only where reading
// them in place would cost more than the copy.
#if defined(HEED_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_GEMM_INL_H_
#undef HEED_GEMM_INL_H_
#else
#define HEED_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "autograd/kernels/simd/vectors-inl.h"
#include "hwy/cache_control.h"
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
// 12 multiply-adds take 6 cycles. If another thread shares the core, what else is in the loop
// counts, too (Zen 3: 24 instructions for 28 are up to 9 % then, nothing otherwise): no
// prefetches.
constexpr bool kLean = HWY_TARGET == HWY_AVX2;
constexpr std::int64_t kBlockK = 384;  // of k per pass: a strip of A stays in L1
constexpr std::int64_t kAhead = 8;     // rows of B between their fetch and their use
constexpr std::int64_t kFetchC = 64;   // of k: a shorter sum is there before its C could be
constexpr std::int64_t kNarrow = 64;   // columns of B that do not repay a copy of A

template <class T>
using Full = hn::ScalableTag<T>;

/// Columns of a panel of B.
template <class T>
HWY_INLINE std::int64_t panel_width() {
  return 2 * std::int64_t(hn::Lanes(Full<T>()));
}
template <class T>
HWY_INLINE std::int64_t panel_count(std::int64_t n) {
  return (n + panel_width<T>() - 1) / panel_width<T>();
}

/// A block of A, read at a[i * row + l * col].
template <class T>
struct Strips {
  const T* a;
  std::int64_t row, col;
};

/// A block of B as panels: element (l, j) at b[j / width * panel + l * row + j % width].
template <class T>
struct Panels {
  const T* b;
  std::int64_t row, panel;
};

/// Hides p's value from the compiler, which else works out the addresses behind it long before
/// their use, and keeps what it has no registers for in memory and in halves of vectors.
template <class T>
HWY_INLINE void forget(T*& p) {
  asm("" : "+r"(p));
}

/// C[kR x kV vectors] (+)= A B over kc steps. `first`: the sum replaces C, and bias is added.
/// C and bias join at the end: their loads wait for nothing, and C is on its way from the start.
/// A function of plain arguments, called through a pointer: a tile may take no more than 200
/// cycles.
template <int kR, int kV, class T>
HWY_NOINLINE void micro_kernel(std::int64_t kc, const T* a, std::int64_t a_row, const T* b, T* c,
                               std::int64_t c_row, std::int64_t b_row, std::int64_t a_col,
                               bool first, const T* HWY_RESTRICT bias) {
  const Full<T> d;
  using V = hn::Vec<Full<T>>;
  const std::int64_t lanes = std::int64_t(hn::Lanes(d));
  V acc[kR][kV];  // loops over it are unrolled: it never exists in memory
  HWY_UNROLL(12)
  for (int r = 0; r < kR; ++r) HWY_UNROLL(2)
  for (int v = 0; v < kV; ++v) acc[r][v] = hn::Zero(d);
  T* row = c;
  if (kc >= kFetchC) {
    HWY_UNROLL(12)
    for (int r = 0; r < kR; ++r, row += c_row) HWY_UNROLL(2)
    for (int v = 0; v < kV; ++v) hwy::Prefetch(row + v * lanes);
  }
  if constexpr (kLean) {
    for (; kc > 0; --kc, a += a_col, b += b_row) {
      V bv[kV];
      HWY_UNROLL(2)
      for (int v = 0; v < kV; ++v) bv[v] = hn::LoadU(d, b + v * lanes);
      HWY_UNROLL(12)
      for (int r = 0; r < kR; ++r) {
        const V ar = hn::Set(d, a[r * a_row]);
        HWY_UNROLL(2)
        for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(ar, bv[v], acc[r][v]);
      }
    }
  } else {
    // One base per three rows: each row is then an address of base and scaled stride.
    constexpr int kBases = (kR + 2) / 3;
    const T* base[kBases];
    HWY_UNROLL(4)
    for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * a_row;
    for (std::int64_t l = 0; l < kc; ++l) {
      V bv[kV];
      HWY_UNROLL(2)
      for (int v = 0; v < kV; ++v) bv[v] = hn::LoadU(d, b + v * lanes);
      HWY_UNROLL(2)  // a panel of B comes from L2 for every strip: 10 % of a large product's time
      for (int v = 0; v < kV; ++v) hwy::Prefetch(b + kAhead * b_row + v * lanes);
      b += b_row;
      HWY_UNROLL(12)
      for (int r = 0; r < kR; ++r) {
        const V ar = hn::Set(d, base[r / 3][(r % 3) * a_row]);
        HWY_UNROLL(2)
        for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(ar, bv[v], acc[r][v]);
      }
      HWY_UNROLL(4)
      for (int i = 0; i < kBases; ++i) base[i] += a_col;
    }
  }
  forget(c);
  if (!first) {
    row = c;
    HWY_UNROLL(12)
    for (int r = 0; r < kR; ++r, row += c_row) HWY_UNROLL(2)
    for (int v = 0; v < kV; ++v) acc[r][v] = hn::Add(hn::LoadU(d, row + v * lanes), acc[r][v]);
  } else if (bias) {
    HWY_UNROLL(12)
    for (int r = 0; r < kR; ++r) HWY_UNROLL(2)
    for (int v = 0; v < kV; ++v) acc[r][v] = hn::Add(hn::LoadU(d, bias + v * lanes), acc[r][v]);
  }
  forget(c);
  HWY_UNROLL(12)
  for (int r = 0; r < kR; ++r, c += c_row) HWY_UNROLL(2)
  for (int v = 0; v < kV; ++v) hn::StoreU(acc[r][v], d, c + v * lanes);
}

/// Heights of strips: kRows while that leaves none or enough, then the rest in few pieces. With 6,
/// the last 7 to 9 rows are two strips of 3 to 5 and not one of 1 or 2, whose chains of
/// multiply-adds are too few to keep a core busy.
inline int strip_rows(std::int64_t left) {
  if (kRows == 6) {
    if (left < 6) return int(left);
    return left == 7 || left == 8 ? 4 : left == 9 ? 5 : 6;
  }
  for (const int rows : {kRows, 8, 4, 2})
    if (rows <= left) return rows;
  return 1;
}

template <class T>
using Kernel = decltype(micro_kernel<1, 1, T>)*;

template <int kV, class T>
HWY_INLINE Kernel<T> kernel_of(int rows) {
  switch (rows) {
    case kRows:
      return micro_kernel<kRows, kV, T>;
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
    case 8:
      return micro_kernel<8, kV, T>;
#else
    case 5:
      return micro_kernel<5, kV, T>;
    case 3:
      return micro_kernel<3, kV, T>;
#endif
    case 4:
      return micro_kernel<4, kV, T>;
    case 2:
      return micro_kernel<2, kV, T>;
    default:
      return micro_kernel<1, kV, T>;
  }
}

#if HWY_TARGET != HWY_SCALAR
/// In each block of 16 bytes: element j of x[i] and element i of x[j] change places.
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D>* x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const auto x0 = x[0];
    x[0] = hn::InterleaveLower(d, x0, x[1]);
    x[1] = hn::InterleaveUpper(d, x0, x[1]);
  } else {
    const auto even_low = hn::InterleaveLower(d, x[0], x[2]);
    const auto even_high = hn::InterleaveUpper(d, x[0], x[2]);
    const auto odd_low = hn::InterleaveLower(d, x[1], x[3]);
    const auto odd_high = hn::InterleaveUpper(d, x[1], x[3]);
    x[0] = hn::InterleaveLower(d, even_low, odd_low);
    x[1] = hn::InterleaveUpper(d, even_low, odd_low);
    x[2] = hn::InterleaveLower(d, even_high, odd_high);
    x[3] = hn::InterleaveUpper(d, even_high, odd_high);
  }
}
#endif

/// out[c * out_row + r] = in[r * in_row + c], in blocks of 16 x 16 bytes of registers.
template <class T>
HWY_NOINLINE void transpose(T* HWY_RESTRICT out, std::int64_t out_row, const T* HWY_RESTRICT in,
                            std::int64_t in_row, std::int64_t rows, std::int64_t columns) {
  std::int64_t full_rows = 0, full_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kN = 16 / sizeof(T);
  const hn::FixedTag<T, kN> d;
  // The last blocks overlap the ones before.
  if (rows >= kN && columns >= kN) full_rows = rows, full_columns = columns;
  for (std::int64_t c0 = 0; c0 < full_columns; c0 += kN)
    for (std::int64_t r0 = 0; r0 < full_rows; r0 += kN) {
      const std::int64_t c = std::min(c0, columns - kN), r = std::min(r0, rows - kN);
      hn::Vec<decltype(d)> block[kN];
      HWY_UNROLL(4)
      for (int i = 0; i < kN; ++i) block[i] = hn::LoadU(d, in + (r + i) * in_row + c);
      transpose_blocks(d, block);
      HWY_UNROLL(4)
      for (int i = 0; i < kN; ++i) hn::StoreU(block[i], d, out + (c + i) * out_row + r);
    }
#endif
  for (std::int64_t c = full_columns; c < columns; ++c)
    for (std::int64_t r = 0; r < full_rows; ++r) out[c * out_row + r] = in[r * in_row + c];
  for (std::int64_t r = full_rows; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) out[c * out_row + r] = in[r * in_row + c];
}

/// out[l * width + j] = b[l * row + j * col]: `columns` of a panel or rows of a strip, over kc. The
/// last vector that a kernel reads of a panel is filled up with 0. Adjacent columns are copied as
/// whole vectors: behind a strip there must be room for two.
template <class T>
HWY_NOINLINE void pack(T* HWY_RESTRICT out, std::int64_t width, const T* HWY_RESTRICT b,
                       std::int64_t row, std::int64_t col, std::int64_t kc, std::int64_t columns) {
  const Full<T> d;
  const std::int64_t lanes = std::int64_t(hn::Lanes(d));
  if (kLean && col == 1 && columns == 2 * lanes && width == columns) {
    for (std::int64_t l = 0; l < kc; ++l, b += row, out += width) {
      hwy::Prefetch(b + width);  // the next panel's
      const auto low = hn::LoadU(d, b), high = hn::LoadU(d, b + lanes);
      hn::StoreU(low, d, out);
      hn::StoreU(high, d, out + lanes);
    }
    return;
  }
  if (col == 1 && columns <= 2 * lanes && kExactMasks) {
    const auto low = hn::FirstN(d, std::size_t(columns));
    const auto high = hn::FirstN(d, std::size_t(std::max(columns - lanes, std::int64_t{0})));
    for (std::int64_t l = 0; l < kc; ++l) {
      hn::StoreU(hn::MaskedLoad(low, d, b + l * row), d, out + l * width);
      if (columns > lanes)
        hn::StoreU(hn::MaskedLoad(high, d, b + l * row + lanes), d, out + l * width + lanes);
    }
    return;
  }
  if (row == 1)
    transpose(out, width, b, col, columns, kc);
  else
    for (std::int64_t l = 0; l < kc; ++l)
      for (std::int64_t j = 0; j < columns; ++j) out[l * width + j] = b[l * row + j * col];
  const std::int64_t read = std::min(width, (columns + lanes - 1) / lanes * lanes);
  if (columns < read)
    for (std::int64_t l = 0; l < kc; ++l)
      for (std::int64_t j = columns; j < read; ++j) out[l * width + j] = T{};
}

/// Packs all panels of B [kc, n].
template <class T>
HWY_NOINLINE void pack_panels(T* out, const T* b, std::int64_t row, std::int64_t col,
                              std::int64_t kc, std::int64_t n) {
  const std::int64_t panel = panel_width<T>();
  for (std::int64_t j = 0; j < n; j += panel)
    pack(out + j * kc, panel, b + j * col, row, col, kc, std::min(panel, n - j));
}
/// Returns what pack_panels wrote, of `packed_rows` rows.
template <class T>
HWY_INLINE Panels<T> packed_panels(const T* packed, std::int64_t packed_rows) {
  return {packed, panel_width<T>(), panel_width<T>() * packed_rows};
}

/// True if B [kc, n] can be read in place: its last vector ends inside the row.
template <class T>
HWY_INLINE bool readable_in_place(std::int64_t col, std::int64_t n) {
  return col == 1 && n % std::int64_t(hn::Lanes(Full<T>())) == 0;
}

/// True if a strip of A is worth a copy: for few columns of B only if its rows lie apart in both
/// directions; if rows are read along k, only if they are a multiple of a page apart and fight for
/// the same lines of L1.
template <class T>
HWY_INLINE bool pack_a(Strips<T> a, std::int64_t n) {
  if (a.col == 1) return a.row * std::int64_t(sizeof(T)) % 4096 == 0 && n > 2 * panel_width<T>();
  return a.row != 1 || n > kNarrow;
}

/// A tile of C [rows, width]; one that is ragged or strided goes through a full one.
template <class T>
HWY_INLINE void multiply_tile(Kernel<T> run, int rows, std::int64_t width, std::int64_t kc,
                              Strips<T> a, const T* b, std::int64_t b_row, T* c, std::int64_t c_row,
                              std::int64_t c_col, bool first, const T* bias) {
  constexpr std::size_t kPanelMax = 2 * HWY_MAX_BYTES / sizeof(T);
  const std::int64_t panel = panel_width<T>();
  if (c_col == 1 && (width == panel || width == panel / 2)) {
    run(kc, a.a, a.row, b, c, c_row, b_row, a.col, first, bias);
    return;
  }
  HWY_ALIGN T edge[kRows * kPanelMax];
  HWY_ALIGN T edge_bias[kPanelMax];
  if (bias) std::copy_n(bias, width, edge_bias);
  if (!first)
    for (int r = 0; r < rows; ++r)
      for (std::int64_t q = 0; q < width; ++q) edge[r * panel + q] = c[r * c_row + q * c_col];
  run(kc, a.a, a.row, b, edge, panel, b_row, a.col, first, bias ? edge_bias : nullptr);
  for (int r = 0; r < rows; ++r)
    for (std::int64_t q = 0; q < width; ++q) c[r * c_row + q * c_col] = edge[r * panel + q];
}

/// C [m, n] (+)= A [m, kc] B [kc, n], kc <= kBlockK; `first` and bias as in micro_kernel.
template <class T>
HWY_NOINLINE void multiply_block(std::int64_t m, std::int64_t n, std::int64_t kc, Strips<T> a,
                                 Panels<T> b, T* c, std::int64_t c_row, std::int64_t c_col,
                                 bool first, const T* bias) {
  const std::int64_t panel = panel_width<T>(), lanes = panel / 2;
  HWY_ALIGN T strip[kRows * kBlockK + 2 * HWY_MAX_BYTES / sizeof(T)];
  const bool copy = pack_a(a, n);
  for (std::int64_t i = 0; i < m;) {
    const int rows = strip_rows(m - i);
    Strips<T> rows_of_a{a.a + i * a.row, a.row, a.col};
    if (copy) {
      pack(strip, rows, rows_of_a.a, a.col, a.row, kc, rows);
      rows_of_a = {strip, 1, rows};
    }
    const Kernel<T> wide = kernel_of<2, T>(rows);
    for (std::int64_t j = 0; j < n; j += panel) {
      const std::int64_t width = std::min(panel, n - j);
      multiply_tile(width <= lanes ? kernel_of<1, T>(rows) : wide, rows, width, kc, rows_of_a,
                    b.b + j / panel * b.panel, b.row, c + i * c_row + j * c_col, c_row, c_col,
                    first, bias ? bias + j : nullptr);
    }
    i += rows;
  }
}

// gemm.cpp compiles these for all that include this file.
extern template decltype(pack_panels<float>) pack_panels<float>;
extern template decltype(pack_panels<double>) pack_panels<double>;
extern template decltype(multiply_block<float>) multiply_block<float>;
extern template decltype(multiply_block<double>) multiply_block<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
