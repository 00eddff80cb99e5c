// gemm_bf16() with the bfloat16 instructions of x86-64. A and B are rounded and packed into tiles,
// which AMX or AVX512_BF16 instructions multiply. The code uses intrinsics, because Highway 1.0.3
// (Debian 12) does not support these instructions.
#include "autograd/kernels/simd/gemm_bf16_tiles.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "autograd/base/parallel.h"
#include "autograd/kernels/simd/scratch.h"
#include "hwy/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace heed::autograd::kernels {

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a false warning of GCC 12 (bug 105593)
#endif

namespace {

// ---- Packing of the operands into tiles of 1 KB. A tile has 16 lines, which are rows of A or
// columns of B, and 32 values of k per line.

using Pair = std::int32_t;                // two bfloat16 that are neighbors along k
constexpr std::int64_t kTileLines = 16;   // lines per tile, and also pairs per line
constexpr std::int64_t kTileDepth = 32;   // values of k per tile
constexpr std::int64_t kTilePairs = 256;  // pairs per tile

std::int64_t tiles(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// An operand that is packed. It has `lines` lines, and `depths` values along k per line. Value l of
// line i is x[i * line + l * depth].
struct TileSource {
  const float* x;
  std::int64_t line, depth, lines, depths;
};

// Functions with these attributes are compiled for CPUs with these instructions, regardless of the
// flags of the build. They run only if find_bf16_ways() has found that the CPU has the
// instructions.
#define HEED_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define HEED_AMX_BF16 __attribute__((target("amx-tile,amx-bf16")))

// Returns a mask of the lowest n of 16 lanes.
inline std::uint16_t lanes_below(std::int64_t n) {
  return std::uint16_t((1u << std::clamp<std::int64_t>(n, 0, 16)) - 1u);
}

// Rounds 32 adjacent numbers of one line to bfloat16. `low` is the mask of the first 16 numbers,
// and `high` of the last 16. Numbers outside the masks are not read, and their results are 0.
HEED_AVX512_BF16 inline __m512i round_line(const float* x, std::uint16_t low, std::uint16_t high) {
  return __m512i(
      _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + 16), _mm512_maskz_loadu_ps(low, x)));
}

// Rounds two neighboring values along k of 16 lines to bfloat16, and returns them as 16 pairs. The
// first value of all lines is at x, and the second value of all lines is at x + next. `even` is the
// mask of the first values, and `odd` of the second values.
HEED_AVX512_BF16 inline __m512i round_pairs(const float* x, std::int64_t next, std::uint16_t even,
                                            std::uint16_t odd) {
  const __m512i interleaved =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512bh both =
      _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(odd, x + next), _mm512_maskz_loadu_ps(even, x));
  return _mm512_permutexvar_epi16(interleaved, __m512i(both));
}

// Transposes 16 x 16 pairs in registers: first within blocks of 128 bits, and then by exchanging
// blocks.
HEED_AVX512_BF16 inline void transpose_pairs(__m512i (&v)[16]) {
  __m512i t[16];
  HWY_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  // v[i + c] becomes columns c, 4 + c, 8 + c and 12 + c of rows i to i + 3.
  HWY_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  HWY_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    const __m512i top_even = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88);
    const __m512i top_odd = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xdd);
    const __m512i low_even = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xdd);
    t[c] = _mm512_shuffle_i32x4(top_even, low_even, 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(top_odd, low_odd, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(top_even, low_even, 0xdd);
    t[12 + c] = _mm512_shuffle_i32x4(top_odd, low_odd, 0xdd);
  }
  HWY_UNROLL(16)
  for (int i = 0; i < 16; ++i) v[i] = t[i];
}

// Packs one tile and pads it with 0. The order in `out` is [line][pair] for A, and [pair][line] for
// B, where `pairs_first` is true.
HEED_AVX512_BF16 void pack_tile(Pair* out, TileSource s, bool pairs_first) {
  const std::int64_t lines = std::min(s.lines, kTileLines), depth = std::min(s.depths, kTileDepth);
  float gathered[kTileLines * kTileDepth];
  if (s.depth != 1 && s.line != 1) {
    for (std::int64_t i = 0; i < lines; ++i)
      for (std::int64_t l = 0; l < depth; ++l)
        gathered[i * kTileDepth + l] = s.x[i * s.line + l * s.depth];
    s.x = gathered, s.line = kTileDepth, s.depth = 1;
  }
  __m512i v[16];
  const bool by_lines = s.depth == 1;
  if (by_lines) {
    const std::uint16_t low = lanes_below(depth), high = lanes_below(depth - 16);
    HWY_UNROLL(16)
    for (int i = 0; i < 16; ++i)
      v[i] = round_line(s.x + i * s.line, i < lines ? low : 0, i < lines ? high : 0);
  } else {
    const std::uint16_t all = lanes_below(lines);
    HWY_UNROLL(16)
    for (int p = 0; p < 16; ++p)
      v[p] = round_pairs(s.x + 2 * p * s.depth, s.depth, 2 * p < depth ? all : 0,
                         2 * p + 1 < depth ? all : 0);
  }
  if (by_lines == pairs_first) transpose_pairs(v);
  HWY_UNROLL(16)
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + 16 * i, v[i]);
}

// Packs the tiles with line index i in [i0, i1) and depth index l in [l0, l1). Tile (i, l) starts
// at out[((i - i0) * (l1 - l0) + l - l0) * kTilePairs].
void pack_tiles(Pair* out, const TileSource& s, std::int64_t i0, std::int64_t i1, std::int64_t l0,
                std::int64_t l1, bool pairs_first) {
  const auto pack_one = [&](std::int64_t i, std::int64_t l) {
    const std::int64_t line = i * kTileLines, at = l * kTileDepth;
    pack_tile(out + ((i - i0) * (l1 - l0) + l - l0) * kTilePairs,
              {s.x + line * s.line + at * s.depth, s.line, s.depth, s.lines - line, s.depths - at},
              pairs_first);
  };
  if (s.depth == 1) {  // the loops follow the order of the source in memory
    for (std::int64_t i = i0; i < i1; ++i)
      for (std::int64_t l = l0; l < l1; ++l) pack_one(i, l);
  } else {
    for (std::int64_t l = l0; l < l1; ++l)
      for (std::int64_t i = i0; i < i1; ++i) pack_one(i, l);
  }
}

// ---- Blocks of C. A block is 1 or 2 tiles high and 1 or 2 tiles wide. It stays in registers
// during a step of k.

// Arguments of a function that computes one block, C = from + A B, where `from` is the bias or the
// old C. Rows of tiles of A are a_next pairs apart, and columns of tiles of B are b_next pairs
// apart. If from_row is 0, one row of `from` is used for all rows of C.
struct BlockArgs {
  const Pair *a, *b;
  std::int64_t a_next, b_next, depth;  // depth is the number of tiles along k
  const float* from;
  std::int64_t from_row;
  float* c;
  std::int64_t c_row;
};

template <int kR, int kC>
HEED_AMX_BF16 void amx_block(const BlockArgs& x) {
  // GCC does not treat tile loads as reads of memory, so a fence is needed before the loads.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::int64_t from_bytes = x.from_row * 4, c_bytes = x.c_row * 4;
  const float *from = x.from, *from2 = from + 16 * x.from_row;
  _tile_loadd(0, from, from_bytes);
  if constexpr (kC == 2) _tile_loadd(1, from + 16, from_bytes);
  if constexpr (kR == 2) _tile_loadd(2, from2, from_bytes);
  if constexpr (kR == 2 && kC == 2) _tile_loadd(3, from2 + 16, from_bytes);
  for (std::int64_t l = 0; l < x.depth; ++l) {
    const Pair *a = x.a + l * kTilePairs, *b = x.b + l * kTilePairs;
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kC == 2) {
      _tile_loadd(7, b + x.b_next, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kR == 2) {
      _tile_loadd(5, a + x.a_next, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kR == 2 && kC == 2) _tile_dpbf16ps(3, 5, 7);
  }
  float* c2 = x.c + 16 * x.c_row;
  _tile_stored(0, x.c, c_bytes);
  if constexpr (kC == 2) _tile_stored(1, x.c + 16, c_bytes);
  if constexpr (kR == 2) _tile_stored(2, c2, c_bytes);
  if constexpr (kR == 2 && kC == 2) _tile_stored(3, c2 + 16, c_bytes);
}

template <int kR, int kC>
HEED_AVX512_BF16 void avx512_block(const BlockArgs& x) {
  constexpr int kRowsAtOnce = 8;  // uses 16 registers for C, 2 for B and 1 for A
  for (int r0 = 0; r0 < 16 * kR; r0 += kRowsAtOnce) {
    __m512 sum[kRowsAtOnce][kC];  // stays in registers, because all loops over it are unrolled
    HWY_UNROLL(8)
    for (int r = 0; r < kRowsAtOnce; ++r) HWY_UNROLL(2)
    for (int c = 0; c < kC; ++c)
      sum[r][c] = _mm512_loadu_ps(x.from + (r0 + r) * x.from_row + 16 * c);
    const Pair* a = x.a + r0 / 16 * x.a_next + r0 % 16 * 16;
    const Pair* b = x.b;
    for (std::int64_t l = 0; l < x.depth; ++l, a += kTilePairs, b += kTilePairs)
      for (int p = 0; p < 16; ++p) {
        __m512i bv[kC];
        HWY_UNROLL(2)
        for (int c = 0; c < kC; ++c) bv[c] = _mm512_loadu_si512(b + c * x.b_next + 16 * p);
        HWY_UNROLL(8)
        for (int r = 0; r < kRowsAtOnce; ++r) {
          // _mm512_set1_epi32 is not used, because Clang 16 never finishes compiling it here.
          const __m512i ar = _mm512_broadcastd_epi32(_mm_loadu_si32(a + 16 * r + p));
          HWY_UNROLL(2)
          for (int c = 0; c < kC; ++c)
            sum[r][c] = _mm512_dpbf16_ps(sum[r][c], __m512bh(ar), __m512bh(bv[c]));
        }
      }
    HWY_UNROLL(8)
    for (int r = 0; r < kRowsAtOnce; ++r) HWY_UNROLL(2)
    for (int c = 0; c < kC; ++c) _mm512_storeu_ps(x.c + (r0 + r) * x.c_row + 16 * c, sum[r][c]);
  }
}

using Block = void (*)(const BlockArgs&);
constexpr Block kAmxBlocks[2][2] = {{amx_block<1, 1>, amx_block<1, 2>},
                                    {amx_block<2, 1>, amx_block<2, 2>}};
constexpr Block kAvx512Blocks[2][2] = {{avx512_block<1, 1>, avx512_block<1, 2>},
                                       {avx512_block<2, 1>, avx512_block<2, 2>}};

// The configuration of the AMX tiles of a thread: 8 tiles of 16 rows by 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
HEED_AMX_BF16 void configure_tiles() {
  const TileConfig config;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  _tile_loadconfig(&config);
}
HEED_AMX_BF16 void release_tiles() { _tile_release(); }

// If `on` is true, configures the AMX tiles of this thread in the constructor, and releases them in
// the destructor.
class AmxScope {
 public:
  explicit AmxScope(bool on) : on_(on) {
    if (on_) configure_tiles();
  }
  ~AmxScope() {
    if (on_) release_tiles();
  }
  AmxScope(const AmxScope&) = delete;

 private:
  bool on_;
};

// ---- Computation of the whole product.

// Number of tiles along k that are summed before the sums are stored to C. Two rows of kStepTiles
// tiles stay in L1.
constexpr std::int64_t kStepTiles = 16;
// Number of rows of tiles of A that are packed at a time. The packed rows stay in L2.
constexpr std::int64_t kRowTiles = 8;

// One product, divided into tiles.
struct TileProduct {
  const Gemm<float>& g;
  Bf16Way way;
  std::int64_t m_tiles = tiles(g.m, kTileLines), n_tiles = tiles(g.n, kTileLines),
               k_tiles = tiles(g.k, kTileDepth);

  std::int64_t step_size(std::int64_t l) const { return std::min(kStepTiles, k_tiles - l); }
  void pack_b(Pair* packed, std::int64_t j0, std::int64_t j1) const {
    for (std::int64_t l = 0; l < k_tiles; l += kStepTiles)
      pack_tiles(packed + (l * n_tiles + j0 * step_size(l)) * kTilePairs,
                 {g.b, g.b_col, g.b_row, g.n, g.k}, j0, j1, l, l + step_size(l), true);
  }
  void block(const Pair* a, const Pair* b, std::int64_t i, std::int64_t j, std::int64_t l,
             const float* bias) const;
  void rows(const Pair* b, const float* bias, std::int64_t i0, std::int64_t i1) const;
};

// Computes the block of C at tile (i, j) over the step of k that starts at tile l. A block that
// extends beyond the edge of C is computed in temporary memory and then copied.
void TileProduct::block(const Pair* a, const Pair* b, std::int64_t i, std::int64_t j,
                        std::int64_t l, const float* bias) const {
  const std::int64_t high = std::min<std::int64_t>(2, m_tiles - i);
  const std::int64_t wide = std::min<std::int64_t>(2, n_tiles - j), depth = step_size(l);
  const std::int64_t row = i * kTileLines, column = j * kTileLines;
  const std::int64_t rows = std::min(high * kTileLines, g.m - row);
  const std::int64_t columns = std::min(wide * kTileLines, g.n - column);
  float* c = g.c + row * g.c_row + column;
  const bool fresh = l == 0 && !g.accumulate;
  const bool whole = rows == high * kTileLines && columns == wide * kTileLines;
  alignas(64) float edge[4 * kTileLines * kTileLines];
  constexpr std::int64_t kEdgeRow = 2 * kTileLines;
  BlockArgs x{.a = a,
              .b = b,
              .a_next = depth * kTilePairs,
              .b_next = depth * kTilePairs,
              .depth = depth,
              .from = fresh   ? bias + column
                      : whole ? c
                              : edge,
              .from_row = fresh   ? 0
                          : whole ? g.c_row
                                  : kEdgeRow,
              .c = whole ? c : edge,
              .c_row = whole ? g.c_row : kEdgeRow};
  if (!fresh && !whole) {
    std::fill(std::begin(edge), std::end(edge), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(c + r * g.c_row, columns, edge + r * kEdgeRow);
  }
  (way == Bf16Way::kAmx ? kAmxBlocks : kAvx512Blocks)[high - 1][wide - 1](x);
  if (!whole)
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(edge + r * kEdgeRow, columns, c + r * g.c_row);
}

// Computes the rows of tiles [i0, i1) of C. Packs at most kRowTiles rows of tiles of A at a time.
void TileProduct::rows(const Pair* b, const float* bias, std::int64_t i0, std::int64_t i1) const {
  const AmxScope tiles_on(way == Bf16Way::kAmx);
  const Scratch<Pair> a(std::min(kRowTiles, i1 - i0) * std::min(kStepTiles, k_tiles) * kTilePairs);
  for (std::int64_t i = i0; i < i1; i += kRowTiles)
    for (std::int64_t l = 0; l < k_tiles; l += kStepTiles) {
      const std::int64_t end = std::min(i1, i + kRowTiles), depth = step_size(l);
      pack_tiles(a.get(), {g.a, g.a_row, g.a_col, g.m, g.k}, i, end, l, l + depth, false);
      for (std::int64_t q = i; q < end; q += 2)
        for (std::int64_t j = 0; j < n_tiles; j += 2)
          block(a.get() + (q - i) * depth * kTilePairs, b + (l * n_tiles + j * depth) * kTilePairs,
                q, j, l, bias);
    }
}

constexpr std::int64_t kTileChunk = 1 << 15;  // smallest work per thread, in packed numbers

// Returns the number of tiles per parallel chunk. There are enough chunks for all threads, unless a
// chunk would have fewer than kTileChunk numbers.
std::int64_t tile_grain(std::int64_t tiles, std::int64_t work_of_one) {
  const std::int64_t share = (tiles + num_threads() - 1) / num_threads();
  return std::max(std::min(share, kRowTiles), kTileChunk / work_of_one);
}

// Returns true if the CPU has AMX and the operating system permits its use. On Linux a process must
// request permission (arch_prctl(2)).
bool may_use_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kBf16Tiles = 1u << 22, kTiles = 1u << 24;
  if (!(d & kBf16Tiles) || !(d & kTiles)) return false;
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

// First, all threads together pack B. Then each thread computes different rows of C.
void gemm_bf16_tiles(const Gemm<float>& g, Bf16Way way) {
  const TileProduct p{g, way};
  const Scratch<Pair> b(p.n_tiles * p.k_tiles * kTilePairs);
  const Scratch<float> bias(p.n_tiles * kTileLines);  // padded with 0
  std::fill_n(bias.get(), p.n_tiles * kTileLines, 0.0f);
  if (g.bias) std::copy_n(g.bias, g.n, bias.get());
  parallel_for(p.n_tiles, tile_grain(p.n_tiles, kTileLines * g.k),
               [&](std::int64_t j0, std::int64_t j1) { p.pack_b(b.get(), j0, j1); });
  // A chunk consists of whole pairs of rows of tiles, because a block is two tiles high.
  const std::int64_t pairs = tiles(p.m_tiles, 2);
  parallel_for(pairs, tile_grain(pairs, 2 * kTileLines * (g.k + g.n)),
               [&](std::int64_t i0, std::int64_t i1) {
                 p.rows(b.get(), bias.get(), 2 * i0, std::min(2 * i1, p.m_tiles));
               });
}

// On Intel CPUs, kPortable is faster than kAvx512. For example, on Emerald Rapids the instruction
// vdpbf16ps takes four times as long as a float32 multiply-add, but computes only twice as many
// products.
std::vector<Bf16Way> find_bf16_ways() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw"))
    return {Bf16Way::kPortable};
  std::vector<Bf16Way> ways = {Bf16Way::kAvx512, Bf16Way::kPortable};
  if (__builtin_cpu_is("intel")) std::swap(ways[0], ways[1]);
  if (may_use_tiles()) ways.insert(ways.begin(), Bf16Way::kAmx);
  return ways;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace heed::autograd::kernels

#else

namespace heed::autograd::kernels {

void gemm_bf16_tiles(const Gemm<float>&, Bf16Way) {}  // never called: only kPortable is available
std::vector<Bf16Way> find_bf16_ways() { return {Bf16Way::kPortable}; }

}  // namespace heed::autograd::kernels

#endif
