// SIMD version of matrix products, compiled once per SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/gemm.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/gemm-inl.h"
#include "autograd/kernels/simd/gemm.h"
#include "autograd/kernels/simd/gemv-inl.h"
#include <algorithm>
#include "autograd/kernels/simd/scratch.h"
#include "autograd/base/parallel.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template decltype(pack_panels<float>) pack_panels<float>;
template decltype(pack_panels<double>) pack_panels<double>;
template decltype(multiply_block<float>) multiply_block<float>;
template decltype(multiply_block<double>) multiply_block<double>;

constexpr Index kInPlaceRows = 8 * kRows;  // largest m for which B is read in place
constexpr Index kSomeRows = 2 * kRows;     // largest m for which copying B is most of the work
constexpr Index kMaxStep = 192;            // largest number of terms in one step of k
constexpr Index kChunk = 1 << 16;          // smallest work per thread, in multiply-adds
// True if the L2 cache is small. Machines with AVX2 but without AVX-512 often have 256 or 512 KB of
// L2. On these machines, B is packed at most kColumns columns at a time. In float32, kColumns
// columns take 288 KB per step of k.
constexpr bool kSmallL2 = HWY_TARGET == HWY_AVX2;
constexpr Index kColumns = 384;          // columns of B that are packed at a time
constexpr Index kPanelsInL1 = 1 << 13;   // largest number of values of B that stay in L1
constexpr Index kBlockOfA = 64 * kRows;  // rows of A that are packed at a time

// Returns the length of a step of k: the number of products that are summed before the sum is added
// to C. If k > kMaxStep, k is divided into an even number of equal steps, so that two threads can
// compute half of them each. Because the length is rounded up, the last step may be shorter than
// the others, or may be unnecessary.
constexpr Index step_of(Index k) {
  if (k <= kMaxStep) return k;
  const Index even = (k + 2 * kMaxStep - 1) / (2 * kMaxStep) * 2;
  return (k + even - 1) / even;
}

// One product and its division into panels and steps. All functions below add the same numbers in
// the same order: first the products within a step of k, and then the sums of the steps, one after
// the other.
template <class T>
struct Product {
  const Gemm<T>& g;
  Index panel = panel_width<T>(), panels = panel_count<T>(g.n);
  Index step = step_of(g.k), steps = (g.k + step - 1) / step;
  // If A has few rows, copying B takes more time than the copy saves.
  bool in_place = readable_in_place<T>(g.b_col, g.n) && g.m <= kInPlaceRows;

  Index step_size(Index s) const { return std::min(step, g.k - s * step); }
  Index packed_size() const { return in_place ? 0 : panels * panel * g.k; }
  // Packs panels [p0, p1) of step s of B.
  void pack_step(T* packed, const T* b, Index s, Index p0, Index p1) const {
    const Index k = step_size(s), first = p0 * panel;
    pack_panels(packed + s * step * panels * panel + first * k,
                b + s * step * g.b_row + first * g.b_col, g.b_row, g.b_col, k,
                std::min(g.n, p1 * panel) - first);
  }
  // Returns the rows of B in step s of k, from the packed copy of B or from B itself.
  Panels<T> step_panels(const T* packed, const T* b, Index s) const {
    if (in_place) return {b + s * step * g.b_row, g.b_row, panel};
    return packed_panels(packed + s * step * panels * panel, step_size(s));
  }
  // Computes rows [i0, i1) of C over all steps of k.
  void rows(const T* a, const T* b, const T* packed, T* c, Index i0, Index i1) const {
    for (Index s = 0; s < steps; ++s)
      multiply_block(i1 - i0, g.n, step_size(s),
                     {a + i0 * g.a_row + s * step * g.a_col, g.a_row, g.a_col},
                     step_panels(packed, b, s), c + i0 * g.c_row, g.c_row, g.c_col,
                     s == 0 && !g.accumulate, g.bias);
  }
};

// Computes C += A B over step s of k, or C = A B + bias if `first` is true. C is [m, n]. Packs one
// panel of B at a time. The panel stays in L1 while all rows of A use it.
template <class T>
void multiply_by_panel(const Product<T>& p, Index s, Index m, Index n, const T* a, const T* b, T* c,
                       Index c_row, Index c_col, bool first, const T* bias) {
  const Gemm<T>& g = p.g;
  const Index k = p.step_size(s);
  const bool copy = pack_a<T>({a, g.a_row, g.a_col}, n);
  const Scratch<T> memory(p.panel * k + (copy ? m * k + p.panel : 0));
  T *const panel = memory.get(), *const strips = panel + p.panel * k;
  for (Index i = 0, rows; copy && i < m; i += rows) {
    rows = strip_rows(m - i);
    pack(strips + i * k, rows, a + i * g.a_row, g.a_col, g.a_row, k, rows);
  }
  for (Index j = 0; j < n; j += p.panel) {
    const Index width = std::min(p.panel, n - j);
    pack(panel, p.panel, b + j * g.b_col, g.b_row, g.b_col, k, width);
    for (Index i = 0; i < m;) {
      const int rows = strip_rows(m - i);
      const Strips<T> strip =
          copy ? Strips<T>{strips + i * k, 1, rows} : Strips<T>{a + i * g.a_row, g.a_row, g.a_col};
      multiply_tile(width <= p.panel / 2 ? kernel_of<1, T>(rows) : kernel_of<2, T>(rows), rows,
                    width, k, strip, panel, p.panel, c + i * c_row + j * c_col, c_row, c_col, first,
                    bias ? bias + j : nullptr);
      i += rows;
    }
  }
}

// Computes C += A B over steps [s0, s1) of k, or C = A B + bias if `first` is true. C is [m, n].
// This function is for machines with a small L2.
//
// If B is not read in place, there are two ways to pack B. One panel of B is packed at a time if
// both conditions hold: a step of B is too large for L1, and either A has few rows, or A is copied
// and B has many columns. The rows of A then stay in L2. Otherwise, kColumns columns of B are
// packed at a time, so that a step of these columns stays in L2 together with some rows of C. If A
// has many rows that are read in place, the first way would be slow, because the rows would compete
// for the same cache lines.
template <class T>
void multiply_steps(const Product<T>& p, Index s0, Index s1, Index m, Index n, const T* a,
                    const T* b, T* c, Index c_row, Index c_col, bool first, const T* bias) {
  const Gemm<T>& g = p.g;
  const auto a_at = [&](Index i, Index s) {
    return Strips<T>{a + i * g.a_row + s * p.step * g.a_col, g.a_row, g.a_col};
  };
  const auto b_at = [&](Index s, Index j) { return b + s * p.step * g.b_row + j * g.b_col; };
  const auto starts = [&](Index s) { return first && s == s0; };
  if (p.in_place) {
    for (Index s = s0; s < s1; ++s)
      multiply_block(m, n, p.step_size(s), a_at(0, s), {b_at(s, 0), g.b_row, p.panel}, c, c_row,
                     c_col, starts(s), bias);
    return;
  }
  const bool copy = pack_a<T>(a_at(0, 0), n);
  if (n * p.step > kPanelsInL1 &&
      (m <= (copy ? kBlockOfA : 16 * kRows) || (copy && n > kColumns))) {
    for (Index i = 0; i < m; i += kBlockOfA)
      for (Index s = s0; s < s1; ++s)
        multiply_by_panel(p, s, std::min(kBlockOfA, m - i), n, a_at(i, s).a, b_at(s, 0),
                          c + i * c_row, c_row, c_col, starts(s), bias);
    return;
  }
  const Index size = std::min(panel_count<T>(n) * p.panel, kColumns) * (s1 - s0) * p.step;
  const Scratch<T> packed(size);
  // If the packed B stays in L2, few rows are computed at a time, so that C stays in L1. Otherwise
  // more rows are computed at a time, because each block of rows reads B from memory again.
  const Index rows = (size <= kColumns * kMaxStep ? 8 : 32) * kRows;
  for (Index j = 0; j < n; j += kColumns) {
    const Index width = std::min(kColumns, n - j);
    const auto slab = [&](Index s) {
      return packed.get() + (s - s0) * p.step * panel_count<T>(width) * p.panel;
    };
    for (Index s = s0; s < s1; ++s)
      pack_panels(slab(s), b_at(s, j), g.b_row, g.b_col, p.step_size(s), width);
    for (Index i = 0; i < m; i += rows)
      for (Index s = s0; s < s1; ++s)
        multiply_block(std::min(rows, m - i), width, p.step_size(s), a_at(i, s),
                       packed_panels<T>(slab(s), p.step_size(s)), c + i * c_row + j * c_col, c_row,
                       c_col, starts(s), bias ? bias + j : nullptr);
  }
}

// Computes a batch of products, or one small product. Each thread computes whole products.
template <class T>
void run_batch(const Product<T>& p) {
  const Gemm<T>& g = p.g;
  const auto at = [&](Index i, const Index* stride) {
    return i / g.batch[1] * stride[0] + i % g.batch[1] * stride[1];
  };
  parallel_for(g.batch[0] * g.batch[1], kChunk / (g.m * g.n * g.k + 1), [&](Index from, Index to) {
    const Scratch<T> packed(p.packed_size());
    for (Index i = from; i < to; ++i) {
      const T* b = g.b + at(i, g.b_batch);
      for (Index s = 0; !p.in_place && s < p.steps; ++s)
        p.pack_step(packed.get(), b, s, 0, p.panels);
      p.rows(g.a + at(i, g.a_batch), b, packed.get(), g.c + at(i, g.c_batch), 0, g.m);
    }
  });
}

// Computes a product with a small C and a long k, such as the gradient of a weight. The steps of k
// are divided among the threads. Each thread then reads those parts of A and B that it has probably
// written in an earlier op. Afterwards, the sums of the steps are added in order.
template <class T>
void run_tall(const Product<T>& p) {
  const Gemm<T>& g = p.g;
  const Index size = g.m * g.n;
  const Scratch<T> packed(kSmallL2 ? 0 : p.packed_size()), sums(p.steps * size);
  parallel_for(p.steps, 1, [&](Index from, Index to) {
    for (Index s = from; s < to; ++s) {
      if (kSmallL2) {
        multiply_steps<T>(p, s, s + 1, g.m, g.n, g.a, g.b, sums.get() + s * size, g.n, 1, true,
                          nullptr);
        continue;
      }
      if (!p.in_place) p.pack_step(packed.get(), g.b, s, 0, p.panels);
      multiply_block<T>(g.m, g.n, p.step_size(s), {g.a + s * p.step * g.a_col, g.a_row, g.a_col},
                        p.step_panels(packed.get(), g.b, s), sums.get() + s * size, g.n, 1, true,
                        nullptr);
    }
  });
  const auto add_up = [&](Index i0, Index i1) HWY_ATTR {
    const T* row = sums.get() + i0 * g.n;
    for (Index s = 1; s < p.steps; ++s)
      add_vectors(sums.get() + i0 * g.n, row, row + s * size, (i1 - i0) * g.n);
    for (Index i = i0; i < i1; ++i, row += g.n) {
      T* out = g.c + i * g.c_row;
      if (g.c_col == 1)
        std::copy_n(row, g.n, out);
      else
        for (Index j = 0; j < g.n; ++j) out[j * g.c_col] = row[j];
    }
  };
  parallel_for(g.m, kChunk / (4 * g.n * p.steps), add_up);
}

// Computes one large product. The rows of C are divided among the threads. Unless B is read in
// place, each chunk of rows packs its own copy of B, so that no core reads memory that another core
// has just written. There are at most as many chunks as threads, because each chunk reads all of B
// from memory again.
template <class T>
void run_large(const Product<T>& p) {
  const Gemm<T>& g = p.g;
  const Index strips = (g.m + kRows - 1) / kRows;
  const Index work = std::max<Index>(1, kChunk / (kRows * g.n * g.k));
  const Index share = (strips + num_threads() - 1) / num_threads();
  parallel_for(strips, std::max(work, share), [&](Index s0, Index s1) {
    const Scratch<T> packed(p.packed_size());
    for (Index s = 0; !p.in_place && s < p.steps; ++s)
      p.pack_step(packed.get(), g.b, s, 0, p.panels);
    // Computes 8 strips of A at a time, so that a step of B stays in L2 between strips.
    for (Index i = s0; i < s1; i += 8)
      p.rows(g.a, g.b, packed.get(), g.c, i * kRows, std::min(g.m, std::min(s1, i + 8) * kRows));
  });
}

// Computes one large product on a machine with a small L2. If C has at least as many rows as
// columns, the rows are divided among the threads, and otherwise the columns.
template <class T>
void run_small_l2(const Product<T>& p) {
  const Gemm<T>& g = p.g;
  const bool by_rows = g.m >= g.n;
  const Index unit = by_rows ? kRows : p.panel, size = by_rows ? g.m : g.n;
  const Index units = (size + unit - 1) / unit;
  parallel_for(units, (units + num_threads() - 1) / num_threads(), [&](Index u0, Index u1) {
    const Index from = u0 * unit, to = std::min(size, u1 * unit);
    const Index i = by_rows ? from : 0, j = by_rows ? 0 : from;
    multiply_steps(p, 0, p.steps, by_rows ? to - from : g.m, by_rows ? g.n : to - from,
                   g.a + i * g.a_row, g.b + j * g.b_col, g.c + i * g.c_row + j * g.c_col, g.c_row,
                   g.c_col, !g.accumulate, g.bias ? g.bias + j : nullptr);
  });
}

// Computes a product with at most kFewRows rows. The columns of B are divided among the threads,
// and each thread reads its columns once.
template <class T>
void run_few_rows(const Product<T>& p) {
  const Gemm<T>& g = p.g;
  const auto columns = [&](Index j0, Index j1) {
    for (Index j = j0; j < j1; j += kFewColumns)
      for (Index s = 0; s < p.steps; ++s)
        multiply_few_rows<T>(g.m, std::min(kFewColumns, j1 - j), p.step_size(s),
                             {g.a + s * p.step, g.a_row, 1}, g.b + j * g.b_col + s * p.step,
                             g.b_col, g.c + j * g.c_col, g.c_row, g.c_col, s == 0,
                             g.bias ? g.bias + j : nullptr);
  };
  const Index panels = (g.n + kFewColumns - 1) / kFewColumns;
  parallel_for(panels, kChunk / 4 / (kFewColumns * g.k), [&](Index p0, Index p1) {
    columns(p0 * kFewColumns, std::min(g.n, p1 * kFewColumns));
  });
}

// Computes a product with at most kSomeRows rows. The columns of B are divided among the threads.
// Each thread packs one panel of B for one step of k at a time. The panel stays in L1 while all
// rows of A use it.
template <class T>
void run_some_rows(const Product<T>& p) {
  const Gemm<T>& g = p.g;
  parallel_for(p.panels, kChunk / (p.panel * g.k), [&](Index p0, Index p1) {
    const Scratch<T> packed(p.panel * p.step);
    for (Index j = p0 * p.panel; j < std::min(g.n, p1 * p.panel); j += p.panel)
      for (Index s = 0; s < p.steps; ++s) {
        const Index k = p.step_size(s), l = s * p.step, n = std::min(p.panel, g.n - j);
        pack_panels(packed.get(), g.b + l * g.b_row + j * g.b_col, g.b_row, g.b_col, k, n);
        multiply_block(g.m, n, k, {g.a + l * g.a_col, g.a_row, g.a_col},
                       packed_panels<T>(packed.get(), k), g.c + j * g.c_col, g.c_row, g.c_col,
                       s == 0 && !g.accumulate, g.bias ? g.bias + j : nullptr);
      }
  });
}

template <class T>
void run(const Gemm<T>& g) {
  const Product<T> p{g};
  const bool batched = g.batch[0] * g.batch[1] > 1;
  if (!batched && !g.accumulate && is_few_rows<T>(g.m, g.n, g.a_col, g.b_row))
    return run_few_rows(p);
  if (batched || g.m * g.n * g.k <= 2 * kChunk) return run_batch(p);
  // run_tall() stores m * n sums per step of k. Their number must not be larger than (m + n) *
  // step, the number of values of A and B that a step reads.
  if (num_threads() > 1 && p.steps >= num_threads() && !g.bias && !g.accumulate &&
      g.m * g.n <= (g.m + g.n) * p.step)
    return run_tall(p);
  if (!p.in_place && g.m <= kSomeRows) return run_some_rows(p);
  if (kSmallL2) return run_small_l2(p);
  run_large(p);
}

void run_float(const Gemm<float>& g) { run(g); }
void run_double(const Gemm<double>& g) { run(g); }

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {

HWY_EXPORT(run_float);
HWY_EXPORT(run_double);

template <class T, class Run>
void checked(const Gemm<T>& g, Run run) {
  if (g.m <= 0 || g.n <= 0 || g.batch[0] <= 0 || g.batch[1] <= 0) return;
  if (g.k <= 0) return reference::gemm(g);  // A B is 0, so the result is 0, the bias or C
  run(g);
}

}  // namespace

void gemm(const Gemm<float>& g) { checked(g, HWY_DYNAMIC_DISPATCH(run_float)); }
void gemm(const Gemm<double>& g) { checked(g, HWY_DYNAMIC_DISPATCH(run_double)); }

}  // namespace heed::autograd::kernels::simd
#endif
