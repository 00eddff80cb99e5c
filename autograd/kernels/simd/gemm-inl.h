// The inner part of matrix products, compiled for one SIMD target. The source files of products and
// of attention include this header.
//
// B is read in panels, which are two vectors wide, and A in strips of kRows rows. A tile of C is as
// high as a strip and as wide as a panel. micro_kernel() keeps a tile in registers while it sums
// over a block of k. A and B are copied ("packed") into adjacent memory only if this takes less
// time than reading them in place.
#if defined(HEED_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_GEMM_INL_H_
#undef HEED_GEMM_INL_H_
#else
#define HEED_GEMM_INL_H_
#endif

#include <algorithm>

#include "autograd/kernels/simd/vectors-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kRows = 12;  // of 32 registers, 24 are for C, 2 for B and 1 for A
#else
constexpr int kRows = 6;  // of 16 registers, 12 are for C, 2 for B and 1 for A
#endif
// If true, the inner loop has as few instructions as possible, and therefore no prefetches. With
// AVX2, its 12 multiply-adds take 6 cycles, and other instructions cost time if another thread
// shares the core. In that case, a loop of 24 instructions is up to 9 % faster on Zen 3 than a loop
// of 28. If no other thread shares the core, both loops take the same time.
constexpr bool kLean = HWY_TARGET == HWY_AVX2;
constexpr Index kBlockK = 384;  // largest k of a block; a strip of A then stays in L1
constexpr Index kAhead = 8;     // B is prefetched this number of rows before its use
constexpr Index kFetchC = 64;   // smallest k for which prefetching C saves time
constexpr Index kNarrow = 64;   // for B with more columns, pack_a() copies a column-major A

template <class T>
using Full = hn::ScalableTag<T>;

/// Returns the number of columns of a panel of B.
template <class T>
HWY_INLINE Index panel_width() {
  return 2 * Index(hn::Lanes(Full<T>()));
}
/// Returns the number of panels that cover n columns.
template <class T>
HWY_INLINE Index panel_count(Index n) {
  return (n + panel_width<T>() - 1) / panel_width<T>();
}

/// A block of A. Element (i, l) is a[i * row + l * col].
template <class T>
struct Strips {
  const T* a;
  Index row, col;
};

/// A block of B in panels of width = panel_width() columns. Element (l, j) is
/// b[j / width * panel + l * row + j % width].
template <class T>
struct Panels {
  const T* b;
  Index row, panel;
};

/// Hides the value of p from the optimizer. Otherwise the compiler computes addresses that depend
/// on p long before their use. The compiler then has too few registers and moves values to memory.
template <class T>
HWY_INLINE void hide_from_optimizer(T*& p) {
  asm("" : "+r"(p));
}

/// Adds the products of kc columns of A and kc rows of B to the tile acc, which stays in registers.
template <int kR, int kV, class T, class V>
HWY_INLINE void add_products(V (&acc)[kR][kV], Index kc, const T* a, Index a_row, const T* b,
                             Index b_row, Index a_col) {
  const Full<T> d;
  const Index lanes = Index(hn::Lanes(d));
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
    // There is one base pointer per three rows. The address of a row is then the base plus 0, 1 or
    // 2 times the stride. A load instruction can compute such an address itself.
    constexpr int kBases = (kR + 2) / 3;
    const T* base[kBases];
    HWY_UNROLL(4)
    for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * a_row;
    for (Index l = 0; l < kc; ++l) {
      V bv[kV];
      HWY_UNROLL(2)
      for (int v = 0; v < kV; ++v) bv[v] = hn::LoadU(d, b + v * lanes);
      // Each strip of A reads the panel of B from L2 again. This prefetch saves 10 % of the time of
      // a large product.
      HWY_UNROLL(2)
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
}

/// Computes a tile of kR rows and kV vectors of C from kc columns of A and kc rows of B.
///
/// If `first` is true, C is set to the sum of products plus the bias, where a null bias means 0.
/// Otherwise the sum is added to C. The bias or the old C is added after the loop over k, so that
/// the multiply-adds do not wait for it; C is prefetched before the loop. A tile may take only 200
/// cycles. To make the call cheap, the function has plain arguments and is called through a
/// pointer.
template <int kR, int kV, class T>
HWY_NOINLINE void micro_kernel(Index kc, const T* a, Index a_row, const T* b, T* c, Index c_row,
                               Index b_row, Index a_col, bool first, const T* HWY_RESTRICT bias) {
  const Full<T> d;
  using V = hn::Vec<Full<T>>;
  const Index lanes = Index(hn::Lanes(d));
  V acc[kR][kV];  // stays in registers, because all loops over it are unrolled
  HWY_UNROLL(12)
  for (int r = 0; r < kR; ++r) HWY_UNROLL(2)
  for (int v = 0; v < kV; ++v) acc[r][v] = hn::Zero(d);
  T* row = c;
  if (kc >= kFetchC) {
    HWY_UNROLL(12)
    for (int r = 0; r < kR; ++r, row += c_row) HWY_UNROLL(2)
    for (int v = 0; v < kV; ++v) hwy::Prefetch(row + v * lanes);
  }
  add_products<kR, kV>(acc, kc, a, a_row, b, b_row, a_col);
  hide_from_optimizer(c);
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
  hide_from_optimizer(c);
  HWY_UNROLL(12)
  for (int r = 0; r < kR; ++r, c += c_row) HWY_UNROLL(2)
  for (int v = 0; v < kV; ++v) hn::StoreU(acc[r][v], d, c + v * lanes);
}

/// Returns the height of the next strip if `left` rows are left. The height is kRows while many
/// rows are left, and the last rows are divided into few strips. If kRows is 6, the last 7 to 9
/// rows become two strips of 3 to 5 rows, because a strip of 1 or 2 rows has too few independent
/// multiply-adds to keep a core busy.
inline int strip_rows(Index left) {
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

/// Returns the micro_kernel() for tiles of `rows` rows and kV vectors.
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
/// Transposes blocks of 16 bytes in registers. In each block, element j of x[i] and element i of
/// x[j] are exchanged.
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

/// Computes out[c * out_row + r] = in[r * in_row + c]. `out` must not overlap `in`. If rows and
/// columns have at least 16 bytes, blocks of 16 by 16 bytes are transposed in registers.
template <class T>
HWY_NOINLINE void transpose(T* HWY_RESTRICT out, Index out_row, const T* HWY_RESTRICT in,
                            Index in_row, Index rows, Index columns) {
  Index full_rows = 0, full_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kN = 16 / sizeof(T);
  const hn::FixedTag<T, kN> d;
  // If the size is not a multiple of kN, the last block of a row or column overlaps the block
  // before it.
  if (rows >= kN && columns >= kN) full_rows = rows, full_columns = columns;
  for (Index c0 = 0; c0 < full_columns; c0 += kN)
    for (Index r0 = 0; r0 < full_rows; r0 += kN) {
      const Index c = std::min(c0, columns - kN), r = std::min(r0, rows - kN);
      hn::Vec<decltype(d)> block[kN];
      HWY_UNROLL(4)
      for (int i = 0; i < kN; ++i) block[i] = hn::LoadU(d, in + (r + i) * in_row + c);
      transpose_blocks(d, block);
      HWY_UNROLL(4)
      for (int i = 0; i < kN; ++i) hn::StoreU(block[i], d, out + (c + i) * out_row + r);
    }
#endif
  for (Index c = full_columns; c < columns; ++c)
    for (Index r = 0; r < full_rows; ++r) out[c * out_row + r] = in[r * in_row + c];
  for (Index r = full_rows; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) out[c * out_row + r] = in[r * in_row + c];
}

/// Packs a panel of B, or a strip of A: computes out[l * width + j] = b[l * row + j * col] for kc
/// values of l and `columns` values of j. The last vector of a panel is padded with 0. If the
/// columns are adjacent in memory, whole vectors are copied, so `out` needs room for two more
/// vectors after a strip.
template <class T>
HWY_NOINLINE void pack(T* HWY_RESTRICT out, Index width, const T* HWY_RESTRICT b, Index row,
                       Index col, Index kc, Index columns) {
  const Full<T> d;
  const Index lanes = Index(hn::Lanes(d));
  if (kLean && col == 1 && columns == 2 * lanes && width == columns) {
    for (Index l = 0; l < kc; ++l, b += row, out += width) {
      hwy::Prefetch(b + width);  // prefetches row l of the next panel
      const auto low = hn::LoadU(d, b), high = hn::LoadU(d, b + lanes);
      hn::StoreU(low, d, out);
      hn::StoreU(high, d, out + lanes);
    }
    return;
  }
  if (col == 1 && columns <= 2 * lanes && kExactMasks) {
    const auto low = hn::FirstN(d, std::size_t(columns));
    const auto high = hn::FirstN(d, std::size_t(std::max(columns - lanes, Index{0})));
    for (Index l = 0; l < kc; ++l) {
      hn::StoreU(hn::MaskedLoad(low, d, b + l * row), d, out + l * width);
      if (columns > lanes)
        hn::StoreU(hn::MaskedLoad(high, d, b + l * row + lanes), d, out + l * width + lanes);
    }
    return;
  }
  if (row == 1)
    transpose(out, width, b, col, columns, kc);
  else
    for (Index l = 0; l < kc; ++l)
      for (Index j = 0; j < columns; ++j) out[l * width + j] = b[l * row + j * col];
  const Index read = std::min(width, (columns + lanes - 1) / lanes * lanes);
  if (columns < read)
    for (Index l = 0; l < kc; ++l)
      for (Index j = columns; j < read; ++j) out[l * width + j] = T{};
}

/// Packs all panels of B [kc, n]. `out` must have room for kc * panel_count(n) * panel_width()
/// values.
template <class T>
HWY_NOINLINE void pack_panels(T* out, const T* b, Index row, Index col, Index kc, Index n) {
  const Index panel = panel_width<T>();
  for (Index j = 0; j < n; j += panel)
    pack(out + j * kc, panel, b + j * col, row, col, kc, std::min(panel, n - j));
}
/// Returns the panels that pack_panels() wrote to `packed`. `packed_rows` is the kc that
/// pack_panels() received.
template <class T>
HWY_INLINE Panels<T> packed_panels(const T* packed, Index packed_rows) {
  return {packed, panel_width<T>(), panel_width<T>() * packed_rows};
}

/// Returns true if B [kc, n] can be read in place: its columns are adjacent, and the last vector of
/// a row ends inside the row.
template <class T>
HWY_INLINE bool readable_in_place(Index col, Index n) {
  return col == 1 && n % Index(hn::Lanes(Full<T>())) == 0;
}

/// Returns true if copying a strip of A saves time. n is the number of columns of B.
///
/// There are three cases. If the values of a row of A are adjacent, a copy saves time only if B has
/// more than two panels and the row stride is a multiple of 4096 bytes. With such a stride, the
/// rows compete for the same cache lines of L1. If the values of a column of A are adjacent, a copy
/// saves time only if B has more than kNarrow columns. For all other strides, a copy always saves
/// time.
template <class T>
HWY_INLINE bool pack_a(Strips<T> a, Index n) {
  if (a.col == 1) return a.row * Index(sizeof(T)) % 4096 == 0 && n > 2 * panel_width<T>();
  return a.row != 1 || n > kNarrow;
}

/// Computes a tile of C [rows, width]. If the tile is not as wide as a panel or half a panel, or if
/// the columns of C are not adjacent, the tile is computed in temporary memory and then copied to
/// C.
template <class T>
HWY_INLINE void multiply_tile(Kernel<T> run, int rows, Index width, Index kc, Strips<T> a,
                              const T* b, Index b_row, T* c, Index c_row, Index c_col, bool first,
                              const T* bias) {
  constexpr std::size_t kPanelMax = 2 * HWY_MAX_BYTES / sizeof(T);
  const Index panel = panel_width<T>();
  if (c_col == 1 && (width == panel || width == panel / 2)) {
    run(kc, a.a, a.row, b, c, c_row, b_row, a.col, first, bias);
    return;
  }
  HWY_ALIGN T edge[kRows * kPanelMax];
  HWY_ALIGN T edge_bias[kPanelMax];
  if (bias) std::copy_n(bias, width, edge_bias);
  if (!first)
    for (int r = 0; r < rows; ++r)
      for (Index q = 0; q < width; ++q) edge[r * panel + q] = c[r * c_row + q * c_col];
  run(kc, a.a, a.row, b, edge, panel, b_row, a.col, first, bias ? edge_bias : nullptr);
  for (int r = 0; r < rows; ++r)
    for (Index q = 0; q < width; ++q) c[r * c_row + q * c_col] = edge[r * panel + q];
}

/// Computes C = A B + bias if `first` is true, and otherwise C += A B. C is [m, n], A is [m, kc]
/// and B is [kc, n], where kc <= kBlockK. A null bias means 0.
template <class T>
HWY_NOINLINE void multiply_block(Index m, Index n, Index kc, Strips<T> a, Panels<T> b, T* c,
                                 Index c_row, Index c_col, bool first, const T* bias) {
  const Index panel = panel_width<T>(), lanes = panel / 2;
  HWY_ALIGN T strip[kRows * kBlockK + 2 * HWY_MAX_BYTES / sizeof(T)];
  const bool copy = pack_a(a, n);
  for (Index i = 0; i < m;) {
    const int rows = strip_rows(m - i);
    Strips<T> rows_of_a{a.a + i * a.row, a.row, a.col};
    if (copy) {
      pack(strip, rows, rows_of_a.a, a.col, a.row, kc, rows);
      rows_of_a = {strip, 1, rows};
    }
    const Kernel<T> wide = kernel_of<2, T>(rows);
    for (Index j = 0; j < n; j += panel) {
      const Index width = std::min(panel, n - j);
      multiply_tile(width <= lanes ? kernel_of<1, T>(rows) : wide, rows, width, kc, rows_of_a,
                    b.b + j / panel * b.panel, b.row, c + i * c_row + j * c_col, c_row, c_col,
                    first, bias ? bias + j : nullptr);
    }
    i += rows;
  }
}

// Only gemm.cpp compiles these templates.
extern template decltype(pack_panels<float>) pack_panels<float>;
extern template decltype(pack_panels<double>) pack_panels<double>;
extern template decltype(multiply_block<float>) multiply_block<float>;
extern template decltype(multiply_block<double>) multiply_block<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
