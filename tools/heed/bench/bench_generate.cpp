// heed bench generate: a token of one sequence reads every weight once, so the limit is what memory
// or cache gives.
#include "autograd/base/parallel.h"
#include "autograd/kernels/simd/elementwise.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/presets.h"
#include "tools/heed/bench/turns.h"
#include "tools/heed/bench/works.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct GenerationRow {
  std::string preset;
  int threads;
  double tokens_per_s, weight_bytes, gb_per_s, read_share;
};

// Reads memory on all threads, an even part each: sums of two rows at a time, float32, into one
// that stays in the first cache. No sum waits for the one before, and nothing is converted: memory
// is what limits it.
class ReadOnlySum {
 public:
  ReadOnlySum(double bytes, int threads)
      : x_(std::size_t(bytes) / sizeof(float) / (2 * kRow) * (2 * kRow), 1.0f), threads_(threads) {}
  double bytes() const { return double(x_.size() * sizeof(float)); }
  void operator()() const {
    const std::int64_t pairs = std::int64_t(x_.size()) / (2 * kRow);
    autograd::parallel_for(pairs, (pairs + threads_ - 1) / threads_,
                           [&](std::int64_t begin, std::int64_t end) {
                             float sums[kRow];
                             for (const float* x = x_.data() + begin * 2 * kRow;
                                  x < x_.data() + end * 2 * kRow; x += 2 * kRow)
                               autograd::kernels::simd::add(sums, x, x + kRow, kRow);
                           });
  }

 private:
  static constexpr std::int64_t kRow = 512;
  std::vector<float> x_;
  int threads_;
};

GenerationRow measure_generation(const std::string& preset, int threads) {
  Generation generate(nn::preset(preset), bench_vocabulary(preset));
  const ReadOnlySum sum(generate.weight_bytes(), threads);
  const auto times = seconds_by_turn({[&] { generate(); }, sum}, 7, 0.05);
  const double seconds = median(times[0]), bytes = generate.tokens() * generate.weight_bytes();
  return {preset,
          threads,
          generate.tokens() / seconds,
          generate.weight_bytes(),
          bytes / seconds / 1e9,
          bytes / sum.bytes() * median_ratio(times[1], times[0])};
}

}  // namespace

Report bench_generate(const BenchOptions& options) {
  Report report(kGenerationKeys);
  Table& table = report.table("rows");
  for_presets(options, "bench generate", measure_generation, [&](const GenerationRow& r) {
    table.add({r.preset, r.threads, r.tokens_per_s, r.weight_bytes, r.gb_per_s, r.read_share});
  });
  return report;
}

}  // namespace heed
