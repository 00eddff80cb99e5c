// Products of a few rows [m, k] with a weight [out, k], compiled once per SIMD target. The weight
// is read once and is not copied.
//
// The terms along k are summed in steps (step_of() in gemm.cpp). The sum over one step must be one
// chain of multiply-adds, so that it has the same bits as in other products. Each lane therefore
// computes one output, and the weights of neighboring lanes are one row apart in memory. Blocks of
// the weight are loaded along k and transposed in registers before the multiply-adds.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/gemv.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/gemv-inl.h"
#include <algorithm>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Number of outputs per vector, one per lane.
template <class T>
constexpr int kOutputs = int(hn::MaxLanes(Narrow<T>()));
// Number of neighboring values along k that are transposed together. They are one block of 16
// bytes.
template <class T>
constexpr int kNeighbors = kOutputs<T> == 1 ? 1 : int(16 / sizeof(T));

// Number of independent chains of multiply-adds, which hide most of the latency of a multiply-add.
// On x86, few_rows_kernel() reads 16 rows of float32 at a time: if the row stride is a multiple of
// 2048 bytes, all rows compete for two sets of the L1 cache, and 32 rows do not fit into them. With
// AVX-512, transposing takes about as long as the latency of one chain (measured on Zen 4).
#if HWY_TARGET <= HWY_AVX3
constexpr int kChains = 1;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kChains = 2;
#elif HWY_ARCH_ARM_A64
constexpr int kChains = 8;
#else
constexpr int kChains = 4;
#endif

// Loads a vector whose block b of 16 bytes is at p + b * stride.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* p, [[maybe_unused]] Index stride) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (constexpr int kBlocks = int(hn::MaxLanes(D())) / kNeighbors<T>; kBlocks > 1) {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, p + kBlocks / 2 * stride, stride),
                       load_blocks(half, p, stride));
  }
#endif
  return hn::LoadU(d, p);
}

// Sets columns[i] to the vector of element i of kOutputs consecutive rows of w.
template <class T>
HWY_INLINE void load_columns(const T* w, Index row, hn::Vec<Narrow<T>>* columns) {
  constexpr int kN = kNeighbors<T>;
  HWY_UNROLL(4)
  for (int i = 0; i < kN; ++i) columns[i] = load_blocks(Narrow<T>(), w + i * row, kN * row);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kN > 1) transpose_blocks(Narrow<T>(), columns);
#endif
}

// Adds to acc[r] the products of row r of a with kOutputs rows of w, over kNeighbors values of k.
template <int kM, class T>
HWY_INLINE void add_block(const T* a, Index a_row, const T* w, Index w_row,
                          hn::Vec<Narrow<T>>* acc) {
  const Narrow<T> d;
  hn::Vec<Narrow<T>> columns[kNeighbors<T>];
  load_columns(w, w_row, columns);
  HWY_UNROLL(4)
  for (int i = 0; i < kNeighbors<T>; ++i) HWY_UNROLL(8)
  for (int r = 0; r < kM; ++r)
    acc[r] = hn::MulAdd(hn::Set(d, a[r * a_row + i]), columns[i], acc[r]);
}

// Computes sums[r * kFewColumns + j], the product of row r of A and row j of W, for kM rows of A
// and kV * kOutputs rows of W.
template <int kM, int kV, class T>
HWY_NOINLINE void few_rows_kernel(Index kc, Strips<T> a, const T* HWY_RESTRICT w, Index w_row,
                                  T* HWY_RESTRICT sums) {
  const Narrow<T> d;
  constexpr int kL = kOutputs<T>, kN = kNeighbors<T>;
  constexpr int kLine = 64 / sizeof(T);  // values per cache line; all are used when it is loaded
  hn::Vec<Narrow<T>> acc[kV][kM];
  HWY_UNROLL(4)
  for (int v = 0; v < kV; ++v) HWY_UNROLL(8)
  for (int r = 0; r < kM; ++r) acc[v][r] = hn::Zero(d);
  Index l = 0;
  for (; l + kLine <= kc; l += kLine) HWY_UNROLL(4)
  for (int v = 0; v < kV; ++v) {
    const T* rows = w + v * kL * w_row + l;
    for (int q = 0; q < kLine; q += kN) add_block<kM>(a.a + l + q, a.row, rows + q, w_row, acc[v]);
  }
  for (; l + kN <= kc; l += kN) HWY_UNROLL(4)
  for (int v = 0; v < kV; ++v) add_block<kM>(a.a + l, a.row, w + v * kL * w_row + l, w_row, acc[v]);
  for (; l < kc; ++l) HWY_UNROLL(4)
  for (int v = 0; v < kV; ++v) {
    HWY_ALIGN T column[kL];
    for (int j = 0; j < kL; ++j) column[j] = w[(v * kL + j) * w_row + l];
    HWY_UNROLL(8)
    for (int r = 0; r < kM; ++r)
      acc[v][r] = hn::MulAdd(hn::Set(d, a.a[r * a.row + l]), hn::Load(d, column), acc[v][r]);
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kV; ++v) HWY_UNROLL(8)
  for (int r = 0; r < kM; ++r) hn::StoreU(acc[v][r], d, sums + r * kFewColumns + v * kL);
}

// Computes sums[r * kFewColumns + j], the product of row r of A and row j of W, for kM rows of A
// and n rows of W.
template <int kM, class T>
HWY_NOINLINE void few_rows_sums(Index n, Index kc, Strips<T> a, const T* w, Index w_row, T* sums) {
  constexpr int kL = kOutputs<T>, kV = std::clamp(kChains / kM, 1, int(kFewColumns) / kL);
  Index j = 0;
  for (; j + kV * kL <= n; j += kV * kL)
    few_rows_kernel<kM, kV>(kc, a, w + j * w_row, w_row, sums + j);
  for (; j + kL <= n; j += kL) few_rows_kernel<kM, 1>(kc, a, w + j * w_row, w_row, sums + j);
  if (j == n) return;
  // The last vector starts with rows of W before row j. Their outputs are already computed, or are
  // not needed.
  HWY_ALIGN T last[kM * kFewColumns];
  const Index skipped = kL - (n - j);
  few_rows_kernel<kM, 1>(kc, a, w + (j - skipped) * w_row, w_row, last);
  for (int r = 0; r < kM; ++r)
    std::copy_n(last + r * kFewColumns + skipped, n - j, sums + r * kFewColumns + j);
}

template <class T>
void multiply_few_rows(Index m, Index n, Index kc, Strips<T> a, const T* w, Index w_row, T* c,
                       Index c_row, Index c_col, bool first, const T* bias) {
  HWY_ALIGN T sums[kFewRows * kFewColumns];
  for (Index i = 0; i < m;) {
    const Index left = m - i;
    const Strips<T> rows{a.a + i * a.row, a.row, a.col};
    T* out = sums + i * kFewColumns;
    if (left >= 8)
      few_rows_sums<8>(n, kc, rows, w, w_row, out), i += 8;
    else if (left >= 4)
      few_rows_sums<4>(n, kc, rows, w, w_row, out), i += 4;
    else if (left >= 2)
      few_rows_sums<2>(n, kc, rows, w, w_row, out), i += 2;
    else
      few_rows_sums<1>(n, kc, rows, w, w_row, out), i += 1;
  }
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      const T sum = sums[i * kFewColumns + j];
      T& out = c[i * c_row + j * c_col];
      out = !first ? out + sum : bias ? bias[j] + sum : sum;
    }
}

template decltype(multiply_few_rows<float>) multiply_few_rows<float>;
template decltype(multiply_few_rows<double>) multiply_few_rows<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();
