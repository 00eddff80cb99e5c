#include "autograd/kernels/simd/gemm_bf16.h"

#include <algorithm>
#include <atomic>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "autograd/kernels/kernels.h"
#include "autograd/kernels/simd/gemm_bf16_tiles.h"
#include "autograd/kernels/simd/scratch.h"

namespace heed::autograd::kernels {
namespace {

constexpr const char* kBf16Ways[] = {"amx", "avx512_bf16", "portable"};

constexpr std::int64_t kRoundingChunk = 1 << 14;  // smallest work per thread, in rounded numbers

// Computes out[o * inner + i] = x[o * outer_stride + i * inner_stride], rounded to bfloat16.
void round_copy(float* out, const float* x, std::int64_t outer, std::int64_t inner,
                std::int64_t outer_stride, std::int64_t inner_stride) {
  parallel_for(outer, kRoundingChunk / (inner + 1), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t o = from; o < to; ++o) {
      const float* row = x + o * outer_stride;
      for (std::int64_t i = 0; i < inner; ++i)
        out[o * inner + i] = rounded_to_bfloat16(row[i * inner_stride]);
    }
  });
}

// Replaces an operand [rows, columns] by a rounded copy: sets x, row and col to the pointer and the
// strides of the copy. If the values of a column are adjacent in x, they are adjacent in the copy.
void round_operand(float* copy, const float*& x, std::int64_t& row, std::int64_t& col,
                   std::int64_t rows, std::int64_t columns) {
  const bool by_columns = row == 1 && col != 1;
  if (by_columns)
    round_copy(copy, x, columns, rows, col, row);
  else
    round_copy(copy, x, rows, columns, row, col);
  x = copy, row = by_columns ? 1 : columns, col = by_columns ? rows : 1;
}

void run_portable(const Gemm<float>& g) {
  const Scratch<float> a(g.m * g.k), b(g.k * g.n);
  Gemm<float> rounded = g;
  round_operand(a.get(), rounded.a, rounded.a_row, rounded.a_col, g.m, g.k);
  round_operand(b.get(), rounded.b, rounded.b_row, rounded.b_col, g.k, g.n);
  gemm(rounded);
}

// Returns the implementations (ways) of gemm_bf16() that this machine supports, fastest first.
const std::vector<Bf16Way>& machine_bf16_ways() {
  static const std::vector<Bf16Way> ways = find_bf16_ways();
  return ways;
}

std::atomic<std::size_t> chosen_bf16_way = 0;  // index into machine_bf16_ways()

Bf16Way current_bf16_way() {
  if (!std::string_view(simd_target()).starts_with("AVX3")) return Bf16Way::kPortable;
  return machine_bf16_ways()[chosen_bf16_way.load(std::memory_order_relaxed)];
}

}  // namespace

void gemm_bf16(const Gemm<float>& g) {
  check<ValueError>(g.batch[0] == 1 && g.batch[1] == 1 && g.c_col == 1, "gemm_bf16",
                    "needs one product and adjacent columns of C, got a batch of ", g.batch[0],
                    " x ", g.batch[1], " and columns ", g.c_col, " apart");
  if (g.m <= 0 || g.n <= 0 || g.k <= 0) return gemm(g);
  const Bf16Way way = current_bf16_way();
  way == Bf16Way::kPortable ? run_portable(g) : gemm_bf16_tiles(g, way);
}

const char* bf16_way() { return kBf16Ways[int(current_bf16_way())]; }

std::vector<std::string> bf16_ways() {
  std::vector<std::string> names;
  for (const Bf16Way way : machine_bf16_ways()) names.emplace_back(kBf16Ways[int(way)]);
  return names;
}

void force_bf16_way(std::string_view name) {
  const std::vector<std::string> names = bf16_ways();
  const auto found = name.empty() ? names.begin() : std::find(names.begin(), names.end(), name);
  check<ValueError>(found != names.end(), "bfloat16", "'", name,
                    "' is not available on this machine; choose one of ", join(names));
  chosen_bf16_way = std::size_t(found - names.begin());
}

}  // namespace heed::autograd::kernels
